// The whole editor: palette, canvas, panel, text and problems around one store.

import { ReactFlowProvider } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { lazy, Suspense, useEffect, useRef } from "react";
import { createPortal } from "react-dom";
import { createRoot } from "react-dom/client";
import { stringify } from "yaml";
import "../styles/graph.scss";
import "../styles/editor.scss";
import { Canvas } from "./canvas/canvas.tsx";
import { showPlainForm } from "./fallback.ts";
import { keepChecked } from "./model/checking.ts";
import type { Config } from "./model/editor.ts";
import { Drafting } from "./model/drafting.ts";
import { type Editor, EditorContext, useChosen, useEditor } from "./model/editor.ts";
import { Palette } from "./canvas/palette.tsx";
import { Panel } from "./panel/panel.tsx";
import { keepArranged } from "./model/placing.ts";
import { ProblemBar } from "./problems.tsx";
import { startShortcuts } from "./shortcuts.ts";
import { StepsList } from "./canvas/steps_list.tsx";
import { EditorStore } from "./model/store.ts";
import { Toolbar } from "./toolbar.tsx";

// Text editing is a third of the editor's weight, and many never open it.
const YamlPane = lazy(() => import("./text/yaml_pane.tsx").then(({ YamlPane }) => ({ default: YamlPane })));
const Conflict = lazy(() => import("./text/conflict.tsx").then(({ Conflict }) => ({ default: Conflict })));

export function mount(host: HTMLElement): () => void {
  const config = JSON.parse(host.querySelector("script")?.textContent ?? "null") as Config;
  const editor = open(config);
  const stops = [
    keepChecked(editor.store, config.project),
    keepArranged(editor.store),
    startShortcuts(editor, document.body),
  ];
  const stage = document.createElement("div");
  stage.className = "flow-editor";
  host.append(stage);
  const acts = document.querySelector("[data-editor-acts]");
  const discard = document.querySelector("[data-discards]");
  const onDiscard = () => void editor.drafting.discard();
  discard?.addEventListener("click", onDiscard);
  const root = createRoot(stage, {
    onUncaughtError: (error) => {
      reportError(error);
      // What is removed of the editor hands over what was typed last.
      queueMicrotask(() => showPlainForm(host, error, editor.store.now.text));
    },
  });
  root.render(
    <EditorContext value={editor}>
      {acts && createPortal(<Toolbar />, acts)}
      <Workplace />
    </EditorContext>,
  );
  return () => {
    discard?.removeEventListener("click", onDiscard);
    for (const stop of stops) stop();
    root.unmount();
    stage.remove();
  };
}

function open(config: Config): Editor {
  const given = config.version;
  const clean = { text: asYaml(given.text), layout: given.layout };
  const store = new EditorStore(
    config.draft ? { text: config.draft.text, layout: config.draft.layout } : clean,
    config.view,
  );
  const place = { project: config.project, key: config.key, user: config.user };
  const drafting = new Drafting(store, place, clean, config.draft, given.number, config.may_write);
  if (!config.draft) drafting.example ||= config.example;
  return { config, store, drafting };
}

// A flow that a program sent as JSON is edited as YAML; it stays the same flow.
function asYaml(text: string): string {
  if (!text.trimStart().startsWith("{")) return text;
  try {
    return stringify(JSON.parse(text), { lineWidth: 0 });
  } catch {
    return text;
  }
}

function Workplace() {
  const { config, drafting } = useEditor();
  const { view, isList, fault, flow } = useChosen((state) => state);
  return (
    <>
      {drafting.isOvertaken && (
        <Suspense>
          <Conflict />
        </Suspense>
      )}
      {fault && (
        <p className="note" role="status">
          <b>The YAML cannot be read at line {fault.line}.</b> {fault.message.replace(/[.:]?$/, ".")} The canvas shows
          what it said before.
        </p>
      )}
      {flow.isForeign && (
        <p className="note">
          This file speaks cnvrg’s language (tasks and relations). It runs as it is; the canvas edits flows with steps
          only.
        </p>
      )}
      <div className={`workplace show-${view} ${isList ? "as-list" : ""}`}>
        {config.may_write && <Palette />}
        <div className="stage">
          {isList ? (
            <StepsList />
          ) : (
            <ReactFlowProvider>
              <Canvas />
            </ReactFlowProvider>
          )}
        </div>
        {view !== "canvas" && (
          <Suspense fallback={<div className="yaml-pane" />}>
            <YamlPane />
          </Suspense>
        )}
        <Panel />
      </div>
      <ProblemBar />
      <Said />
    </>
  );
}

const SHOWN_MS = 6000;

// The last thing to tell, for eyes and for screen readers, gone after a while.
function Said() {
  const { store } = useEditor();
  const said = useChosen((state) => state.said);
  const timer = useRef(0);
  useEffect(() => {
    clearTimeout(timer.current);
    if (said) timer.current = window.setTimeout(() => store.set({ said: null }), SHOWN_MS);
  }, [said, store]);
  return (
    <div className="said" role="status" aria-live="polite">
      {said && <p key={said.at}>{said.words}</p>}
    </div>
  );
}
