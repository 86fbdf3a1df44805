// Keys of the editor. Inside a field the browser's own meaning of a key comes first.

import * as actions from "./model/actions.ts";
import { copySelected, paste } from "./model/clipboard.ts";
import type { Editor } from "./model/editor.ts";
import { publish } from "./model/publishing.ts";

export function startShortcuts(editor: Editor, host: HTMLElement): () => void {
  const { store, config } = editor;
  const onKeyDown = (event: KeyboardEvent) => {
    const isCommand = event.ctrlKey || event.metaKey;
    const key = event.key.toLowerCase();
    if (isCommand && key === "s") {
      event.preventDefault();
      if (config.may_write) void publish(editor);
      return;
    }
    if (isTyping(event)) return;
    if (isCommand && key === "z") act(event, () => (event.shiftKey ? store.redo() : store.undo()));
    else if (isCommand && key === "y") act(event, () => store.redo());
    else if (isCommand && key === "a") act(event, () => actions.selectAll(editor));
    else if ((event.key === "Delete" || event.key === "Backspace") && store.state.selection.size > 0)
      act(event, () => actions.removeSelected(editor));
    else if (event.key === "Escape") store.select();
  };
  const onCopy = (event: ClipboardEvent) => {
    if (isTyping(event) || !document.getSelection()?.isCollapsed) return;
    const text = copySelected(editor);
    if (!text) return;
    event.clipboardData?.setData("text/plain", text);
    event.preventDefault();
    if (event.type === "cut") actions.removeSelected(editor);
    else store.say("Copied as YAML.");
  };
  const onPaste = (event: ClipboardEvent) => {
    if (isTyping(event)) return;
    if (paste(editor, event.clipboardData?.getData("text/plain") ?? "")) event.preventDefault();
  };
  const stop = new AbortController();
  const { signal } = stop;
  host.addEventListener("keydown", onKeyDown, { signal });
  // The browser sends these to the body while nothing that can be edited has the focus.
  document.addEventListener("copy", onCopy, { signal });
  document.addEventListener("cut", onCopy, { signal });
  document.addEventListener("paste", onPaste, { signal });
  return () => stop.abort();
}

function act(event: Event, deed: () => void): void {
  event.preventDefault();
  deed();
}

// The text of the file lives in a shadow tree: the first element of the path is what really has the focus.
function isTyping(event: Event): boolean {
  const target = event.composedPath()[0];
  return (
    target instanceof HTMLElement &&
    target.closest("input:not([type=checkbox]), textarea, select, [contenteditable=true]") !== null
  );
}
