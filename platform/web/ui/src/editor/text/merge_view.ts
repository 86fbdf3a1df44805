// Two texts side by side.

import { MergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { basics, shadowIn, writing } from "./code_mirror.ts";

export type Shown = { textOf: () => string; remove: () => void };

// Only the right one can be written, and only where `isEditable`; arrows between them take over the left one's parts.
export function showBoth(
  host: HTMLElement,
  left: string,
  right: string,
  labels: readonly [string, string],
  isEditable: boolean,
): Shown {
  const root = shadowIn(host);
  const locked = [EditorState.readOnly.of(true), EditorView.editable.of(false)];
  const view = new MergeView({
    a: { doc: left, extensions: [...basics(labels[0]), locked] },
    b: { doc: right, extensions: [...basics(labels[1]), ...(isEditable ? writing() : [locked])] },
    root,
    parent: root,
    collapseUnchanged: { margin: 4, minSize: 8 },
    ...(isEditable ? { revertControls: "a-to-b" as const } : {}),
  });
  return { textOf: () => view.b.state.doc.toString(), remove: () => view.destroy() };
}
