// The one truth of the editor: the text of a flow file. It is read into a YAML document; an edit changes the document
// and comes back as text in which nothing else moved: comments, order, spaces and quotes stay as they were.

import { type Document, isMap, isSeq, LineCounter, parseDocument, type ToStringOptions } from "yaml";
import { keepFormatting } from "./lines.ts";

type Edit = (document: Document) => void;
export type Fault = { line: number; column: number; message: string };
export type Read = { document: Document; lines: LineCounter; fault: Fault | null };

// Reading and writing take tens of milliseconds for hundreds of steps, so what was read last is kept, and how it is
// written anew where that is known.
let last: { text: string; read: Read; plain?: string } | null = null;

export function read(text: string): Read {
  if (last?.text !== text) last = { text, read: parse(text) };
  return last.read;
}

function parse(text: string): Read {
  const lines = new LineCounter();
  // Keys that are written twice are the server's to report; the canvas shows the last of them.
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: false });
  const error = document.errors[0];
  if (!error) return { document, lines, fault: null };
  const { line, col } = lines.linePos(error.pos[0]);
  const message = (error.message.split("\n")[0] ?? "").replace(/ at line \d+, column \d+:?$/, "");
  return { document, lines, fault: { line, column: col, message } };
}

// Returns the text after an edit. What cannot be read cannot be edited: the text then comes back as it was.
export function edit(text: string, change: Edit): string {
  const { document, fault } = read(text);
  if (fault) return text;
  const style = styleOf(text);
  const plain = last?.plain ?? document.toString(style);
  last = null; // from here on the document says something else
  change(document);
  const edited = document.toString(style);
  if (edited === plain) return text;
  const kept = keepFormatting(text, plain, edited);
  const result = saysTheSame(kept, document) ? kept : edited;
  last = { text: result, read: read(result), plain: edited };
  return result;
}

// The path of a node as the server writes it: `steps[2].grid.lr`.
export function placeOf({ document, lines }: Read, path: readonly (string | number)[]): number | null {
  for (let length = path.length; length > 0; length--) {
    const parent = document.getIn(path.slice(0, length - 1), true);
    const last = path[length - 1];
    const pair = isMap(parent) ? parent.items.find(({ key }) => String(key) === String(last)) : undefined;
    const node = pair ? pair.key : isSeq(parent) ? parent.items[Number(last)] : undefined;
    const range = (node as { range?: [number, number, number] } | undefined)?.range;
    if (range) return lines.linePos(range[0]).line;
  }
  return null;
}

function saysTheSame(text: string, document: Document): boolean {
  const again = read(text);
  return again.fault === null && JSON.stringify(again.document.toJS()) === JSON.stringify(document.toJS());
}

// How this person writes YAML, as far as the writer can follow.
function styleOf(text: string): ToStringOptions {
  const indent = /^(?:[^\s#-][^\n]*:[ \t]*\n(?:[ \t]*(?:#[^\n]*)?\n)*)( +)[^\s#-]/m.exec(text)?.[1]?.length ?? 2;
  return {
    lineWidth: 0,
    indent: Math.min(8, Math.max(2, indent)),
    indentSeq: !/^[^\s#-][^\n]*:[ \t]*\n(?:[ \t]*(?:#[^\n]*)?\n)*- /m.test(text),
    flowCollectionPadding: /[{[] \S/.test(text),
  };
}
