// The text of the file. What is typed here is on the canvas at the next pause; what is done there is here at once.

import { autocompletion } from "@codemirror/autocomplete";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { Annotation, EditorState, Prec, type Text } from "@codemirror/state";
import { EditorView, hoverTooltip, keymap } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { call } from "../model/api.ts";
import { basics, shadowIn, tabKey, writing } from "./code_mirror.ts";
import { completer, describe, type Schema, spotAt } from "./completion.ts";
import { placeOf, read } from "../model/document.ts";
import { type Editor, useChosen, useEditor } from "../model/editor.ts";
import type { Problem } from "../model/store.ts";

const PAUSE_MS = 180;
const fromOutside = Annotation.define<boolean>();
let schema: Promise<Schema> | null = null;

export function YamlPane() {
  const editor = useEditor();
  const { store } = editor;
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const text = useChosen(({ history }) => history.now.text);
  const problems = useChosen((state) => state.problems);
  const fault = useChosen((state) => state.fault);
  const line = useChosen((state) => state.line);
  const selection = useChosen((state) => state.selection);

  useEffect(() => {
    if (!host.current) return;
    const root = shadowIn(host.current);
    const made = makeView(editor, root);
    view.current = made.view;
    schema ??= call<Schema>("GET", "/flows/schema.json");
    void schema.then(made.learn, () => (schema = null));
    return made.remove;
  }, [editor]);

  useEffect(() => {
    if (view.current) replaceText(view.current, text);
  }, [text]);

  useEffect(() => {
    const shown = view.current;
    if (!shown) return;
    const own = fault
      ? [
          {
            line: fault.line,
            column: fault.column,
            message: `This is not YAML: ${fault.message}`,
            is_note: false,
          },
        ]
      : [];
    const marks = (own.length > 0 ? own : problems).map((problem) => markOf(problem, shown.state.doc));
    shown.dispatch(setDiagnostics(shown.state, marks));
  }, [problems, fault, text]);

  useEffect(() => {
    if (!view.current || !line) return;
    goTo(view.current, line.number);
    view.current.focus();
  }, [line]);

  // The text follows the selection of the canvas, as long as nobody writes in it.
  useEffect(() => {
    const [only = "", ...others] = selection;
    const index = store.state.flow.steps.findIndex(({ name }) => name === only);
    if (!view.current || view.current.hasFocus || others.length > 0 || index < 0) return;
    const found = placeOf(read(store.now.text), ["steps", index]);
    if (found !== null) goTo(view.current, found);
  }, [selection, store]);

  return <div className="yaml-pane" ref={host} />;
}

function makeView(editor: Editor, root: ShadowRoot) {
  const { store, config } = editor;
  let timer = 0;
  let known: Schema = {};
  const names = {
    steps: () => store.state.flow.steps.map(({ name }) => name),
    templates: config.templates,
    resources: config.resources,
    pools: config.pools,
    datasets: config.datasets,
    secrets: config.secrets,
  };
  const take = () => {
    clearTimeout(timer);
    timer = 0;
    store.setText(view.state.doc.toString());
  };
  const back = (deed: () => void) => () => {
    if (timer) take();
    deed();
    return true;
  };
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: store.now.text,
      extensions: [
        Prec.high(
          keymap.of([
            {
              key: "Mod-z",
              run: back(() => store.undo()),
              shift: back(() => store.redo()),
              preventDefault: true,
            },
            { key: "Mod-y", run: back(() => store.redo()), preventDefault: true },
          ]),
        ),
        ...basics("Flow as YAML"),
        ...writing(),
        tabKey,
        lintGutter(),
        autocompletion({ override: [(context) => completer(known, names)(context)] }),
        hoverTooltip((shown, position) => hint(known, shown.state.doc, position)),
        EditorState.readOnly.of(!config.may_write && config.key !== ""),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged || update.transactions.some((one) => one.annotation(fromOutside))) return;
          clearTimeout(timer);
          timer = window.setTimeout(take, PAUSE_MS);
        }),
        EditorView.domEventHandlers({ blur: () => void (timer && take()) }),
      ],
    }),
  });
  const learn = (found: Schema) => void (known = found);
  const remove = () => {
    if (timer) take();
    view.destroy();
  };
  return { view, learn, remove };
}

// Replaces only what differs, so that cursor and scroll stay.
function replaceText(view: EditorView, text: string): void {
  const old = view.state.doc.toString();
  if (old === text) return;
  let start = 0;
  while (start < Math.min(old.length, text.length) && old[start] === text[start]) start++;
  let end = 0;
  while (end < Math.min(old.length, text.length) - start && old[old.length - 1 - end] === text[text.length - 1 - end])
    end++;
  view.dispatch({
    changes: { from: start, to: old.length - end, insert: text.slice(start, text.length - end) },
    annotations: fromOutside.of(true),
  });
}

function markOf(problem: Pick<Problem, "line" | "column" | "message" | "is_note">, text: Text) {
  const line = text.line(Math.min(Math.max(1, problem.line ?? 1), text.lines));
  const from = Math.min(line.from + Math.max(0, (problem.column ?? 1) - 1), line.to);
  return {
    from,
    to: line.to,
    severity: problem.is_note ? ("info" as const) : ("error" as const),
    message: problem.message,
  };
}

function goTo(view: EditorView, number: number): void {
  const { from } = view.state.doc.line(Math.min(Math.max(1, number), view.state.doc.lines));
  view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
}

function hint(schema: Schema, text: Text, position: number) {
  const line = text.lineAt(position);
  const key = /^\s*(?:- +)*([\w-]+)\s*:/.exec(line.text);
  const start = line.from + (key?.[0].lastIndexOf(key[1] ?? "") ?? 0);
  if (!key?.[1] || position < start || position > start + key[1].length) return null;
  const spot = spotAt(text.toString(), start);
  const words = spot ? describe(schema, [...spot.path, key[1]]) : "";
  if (!words) return null;
  return {
    pos: start,
    above: true,
    create: () => {
      const dom = document.createElement("div");
      dom.className = "cm-hover";
      dom.textContent = words;
      return { dom };
    },
  };
}
