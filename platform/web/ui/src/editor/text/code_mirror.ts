// CodeMirror in our colours. It lives in a shadow tree, where its styles are adopted sheets and never <style> elements,
// which the Content Security Policy of our pages refuses.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";

const COLOURS = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--nl-code-key)" },
  { tag: [tags.string, tags.content, tags.special(tags.string)], color: "var(--body-color)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--nl-code-value)" },
  { tag: [tags.comment, tags.lineComment], color: "var(--secondary)", fontStyle: "italic" },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], color: "var(--secondary)" },
]);

const LOOK = EditorView.theme({
  "&": { height: "100%", color: "var(--body-color)", backgroundColor: "var(--bg-surface)", fontSize: "12.5px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--font-monospace)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--primary)" },
  ".cm-cursor": { borderLeftColor: "var(--primary)" },
  ".cm-gutters": {
    backgroundColor: "var(--nl-soft)",
    color: "var(--secondary)",
    borderRight: "1px solid var(--nl-line)",
  },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "rgba(var(--primary-rgb), .07)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "rgba(var(--primary-rgb), .22)",
  },
  ".cm-tooltip": {
    backgroundColor: "var(--bg-surface)",
    border: "1px solid var(--nl-line)",
    borderRadius: "6px",
    boxShadow: "var(--nl-shadow)",
    color: "var(--body-color)",
  },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--primary)", color: "var(--primary-fg)" },
  ".cm-completionDetail": { color: "var(--secondary)", fontStyle: "normal", marginLeft: "1.2em" },
  ".cm-tooltip-autocomplete ul li[aria-selected] .cm-completionDetail": { color: "inherit" },
  ".cm-completionInfo, .cm-hover": {
    padding: "6px 10px",
    maxWidth: "340px",
    fontFamily: "var(--font-sans-serif)",
    whiteSpace: "normal",
  },
  ".cm-diagnostic": { fontFamily: "var(--font-sans-serif)", padding: "6px 10px" },
  ".cm-diagnostic-error": { borderLeft: "3px solid var(--nl-failed)" },
  ".cm-diagnostic-info": { borderLeft: "3px solid var(--primary)" },
  ".cm-panels": { backgroundColor: "var(--nl-soft)", color: "inherit" },
  ".cm-textfield, .cm-button": {
    backgroundColor: "var(--bg-surface)",
    backgroundImage: "none",
    border: "1px solid var(--border-color)",
    borderRadius: "5px",
    color: "inherit",
  },
  ".cm-merge-a .cm-changedLine, .cm-deletedChunk": {
    backgroundColor: "color-mix(in srgb, var(--nl-failed) 10%, transparent)",
  },
  ".cm-merge-b .cm-changedLine, .cm-insertedLine": {
    backgroundColor: "color-mix(in srgb, var(--nl-running) 10%, transparent)",
  },
  ".cm-merge-a .cm-changedText": { background: "color-mix(in srgb, var(--nl-failed) 28%, transparent)" },
  ".cm-merge-b .cm-changedText": { background: "color-mix(in srgb, var(--nl-running) 28%, transparent)" },
  ".cm-collapsedLines": { background: "var(--nl-sunken)", color: "var(--secondary)", padding: "4px 10px" },
});

// What every text has, whether it is written, compared or only read.
export function basics(label: string): Extension[] {
  return [
    lineNumbers(),
    drawSelection(),
    yaml(),
    syntaxHighlighting(COLOURS),
    LOOK,
    EditorState.tabSize.of(2),
    indentUnit.of("  "),
    EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
    search({ top: true }),
  ];
}

// What writing needs besides. Undo is not here: the editor has one history for text, canvas and panel.
export function writing(): Extension[] {
  return [
    highlightActiveLine(),
    highlightActiveLineGutter(),
    indentOnInput(),
    bracketMatching(),
    closeBrackets(),
    highlightSelectionMatches(),
    autocompletion({ icons: false }),
    keymap.of([...closeBracketsKeymap, ...completionKeymap, ...searchKeymap, ...defaultKeymap]),
  ];
}

// Tab indents; after Escape it leaves the field.
export const tabKey = keymap.of([indentWithTab]);

// Returns the root of a shadow tree whose parts fill the host.
export function shadowIn(host: HTMLElement): ShadowRoot {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(
    ":host > *, .cm-editor, .cm-mergeView { height: 100%; } .cm-mergeView { overflow: auto; } :host { display: block; }",
  );
  if (root.adoptedStyleSheets.length === 0) root.adoptedStyleSheets.push(sheet);
  return root;
}
