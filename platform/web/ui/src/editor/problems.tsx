// What is wrong with the flow right now, in the server's words; a click leads to the node and the line.

import { useEffect, useState } from "react";
import { formatAgo, formatCounted } from "../format.ts";
import { Icon } from "../graph/icon.tsx";
import { useChosen, useEditor } from "./model/editor.ts";
import { stepOf } from "./canvas/nodes.ts";
import type { Problem } from "./model/store.ts";

export function ProblemBar() {
  const { store } = useEditor();
  const [isOpen, setOpen] = useState(false);
  const { problems, isChecked, flow } = useChosen((state) => state);
  const faults = problems.filter(({ is_note }) => !is_note);
  const notes = problems.filter(({ is_note }) => is_note);
  const first = faults[0] ?? notes[0];
  const goTo = (problem: Problem) => {
    const step = stepOf(problem, flow);
    if (step) store.select(step.name);
    if (problem.line !== null)
      store.set({
        line: { number: problem.line, at: Date.now() },
        view: step || store.state.view !== "canvas" ? store.state.view : "split",
      });
  };
  const word =
    faults.length > 0 ? `${formatCounted(faults.length, "problem")}` : isChecked ? "No problem found" : "Checking…";
  return (
    <section className="problem-bar" aria-label="Problems">
      <div className="row-of">
        <span className={`pill ${faults.length > 0 ? "pending" : isChecked ? "succeeded" : "ended"}`} role="status">
          <Icon name={faults.length > 0 ? "alert-triangle" : isChecked ? "circle-check" : "clock"} />
          {word}
        </span>
        {first && !isOpen && (
          <ProblemLine problem={first} onClick={() => goTo(first)} stepName={stepOf(first, flow)?.name} />
        )}
        {faults.length + notes.length > 1 && (
          <button type="button" className="btn-link btn" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? "Show less" : `Show all ${faults.length + notes.length}`}
          </button>
        )}
        <DraftState />
      </div>
      {isOpen && (
        <ul className="problem-list">
          {[...faults, ...notes].map((problem) => (
            <li key={`${problem.path} ${problem.line} ${problem.message}`}>
              <ProblemLine problem={problem} onClick={() => goTo(problem)} stepName={stepOf(problem, flow)?.name} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function ProblemLine({
  problem,
  stepName,
  onClick,
}: {
  problem: Problem;
  stepName: string | undefined;
  onClick: () => void;
}) {
  return (
    <button type="button" className="problem-line" onClick={onClick}>
      {problem.is_note && <Icon name="info-circle" css="tiny" />}
      {stepName && <b>{stepName}: </b>}
      {problem.message}
      {problem.line !== null && <span className="sub small"> line {problem.line}</span>}
    </button>
  );
}

const TICK_MS = 10_000;

// Where the changes are that are no version yet.
function DraftState() {
  const { drafting, config } = useEditor();
  useChosen((state) => state);
  const version = drafting.base === null ? "a new flow" : `version ${drafting.base}`;
  const [, setNow] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  const words = !config.may_write
    ? "Your role does not allow you to change flows."
    : drafting.kept === "here"
      ? `Draft saved in this browser; ${drafting.other ? "another window has changed it" : "the server has not answered yet"}.`
      : drafting.kept === "writing"
        ? "Saving the draft…"
        : drafting.isDirty && drafting.kept === "kept"
          ? `Draft saved ${drafting.at ? formatAgo(drafting.at) : ""}`
          : drafting.isDirty && drafting.base !== null
            ? "Changed"
            : "No unsaved changes";
  return (
    <span className="sub small push draft-state">
      {words} · {version}
    </span>
  );
}
