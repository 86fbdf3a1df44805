// The buttons of the page's heading: how the flow is shown, its versions, keeping it, running it.

import { useState } from "react";
import { Icon } from "../graph/icon.tsx";
import { useChosen, useEditor } from "./model/editor.ts";
import { addressOf, publish, run } from "./model/publishing.ts";

export function Toolbar() {
  const editor = useEditor();
  const { store, drafting, config } = editor;
  const [isBusy, setBusy] = useState(false);
  const { view, isList, problems, fault, flow } = useChosen((state) => state);
  const faults = problems.filter(({ is_note }) => !is_note).length;
  const isDirty = drafting.isDirty;
  const isSavable = config.may_write && isDirty && faults === 0 && !fault && !isBusy;
  const busily = async (deed: () => Promise<unknown>) => {
    setBusy(true);
    try {
      await deed();
    } finally {
      setBusy(false);
    }
  };
  const why = faults > 0 || fault ? "Correct the problems first" : isDirty ? "" : "No changes";
  return (
    <>
      {drafting.base !== null && (
        <a className="btn" href={addressOf(config.project, drafting.place.key, "versions/")}>
          <Icon name="history" />
          Versions
        </a>
      )}
      <button type="button" className="btn" aria-pressed={isList} onClick={() => store.set({ isList: !isList })}>
        <Icon name="list" />
        List
      </button>
      <button
        type="button"
        className="btn"
        aria-pressed={view !== "canvas"}
        onClick={() => store.set({ view: view === "canvas" ? "split" : "canvas" })}
      >
        <Icon name="code" />
        YAML
      </button>
      {view !== "canvas" && (
        <button
          type="button"
          className="btn"
          aria-pressed={view === "yaml"}
          aria-label="Text alone"
          title="Text alone"
          onClick={() => store.set({ view: view === "yaml" ? "split" : "yaml" })}
        >
          <Icon name="maximize" />
        </button>
      )}
      {config.may_write && (
        <>
          {isDirty && drafting.base !== null && (
            <button type="button" className="btn" data-opens="discard-draft">
              Discard
            </button>
          )}
          <button
            type="button"
            className="btn"
            disabled={!isSavable}
            title={why}
            onClick={() => void busily(() => publish(editor))}
          >
            Save{isDirty ? ` as version ${(drafting.newest ?? 0) + 1}` : "d"}
          </button>
          <span className="btn-pair">
            <button
              type="button"
              className="btn btn-primary"
              disabled={isBusy || faults > 0 || fault !== null}
              title={isDirty ? why || "Saves it as a version, then runs it" : ""}
              onClick={() => void busily(() => run(editor))}
            >
              <Icon name="player-play" />
              Run
            </button>
            {Object.keys(flow.parameters).length > 0 && (
              <button
                type="button"
                className="btn btn-primary"
                aria-label="Run with other values"
                title="Run with other values"
                disabled={isBusy || faults > 0 || fault !== null}
                onClick={() => void busily(() => run(editor, { asks: true }))}
              >
                <Icon name="adjustments" />
              </button>
            )}
          </span>
        </>
      )}
    </>
  );
}
