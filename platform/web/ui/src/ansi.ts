// Colours of a terminal log: SGR codes become classes, every other escape sequence is dropped.

// No part goes on behind the next escape: else a log of nothing but beginnings is read to its end for each of them.
const ESCAPE = /\x1b(?:\[([0-9;]*)m|\[[0-9;?]*[A-Za-ln-z]|\][^\x07\x1b]*\x07|[()][A-B0-2])/g;
const FIRST_COLOUR = 30;

/** What a text looks like, and the styles that are on at its end, for the text that follows it. */
type Painted = { nodes: Node[]; styles: readonly number[] };

export function paint(text: string, before: readonly number[] = []): Painted {
  const nodes: Node[] = [];
  let styles = before;
  let last = 0;
  const plain = text.replace(/\r\n/g, "\n").split("\n").map(lastWritten).join("\n");
  for (const match of plain.matchAll(ESCAPE)) {
    push(nodes, plain.slice(last, match.index), styles);
    last = match.index + match[0].length;
    if (match[1] !== undefined) styles = restyle(styles, match[1]);
  }
  push(nodes, plain.slice(last), styles);
  return { nodes, styles };
}

// A carriage return rewrites its line, as progress bars do; one at the end has rewritten nothing yet.
function lastWritten(line: string): string {
  return line.slice(line.lastIndexOf("\r", line.length - 2) + 1);
}

function restyle(styles: readonly number[], codes: string): readonly number[] {
  let now = styles;
  for (const code of codes.split(";").map(Number)) {
    if (code === 0) now = [];
    else if (code < FIRST_COLOUR) now = now.includes(code) ? now : [...now, code];
    else now = [...now.filter((style) => style < FIRST_COLOUR), ...(code === 39 ? [] : [code])];
  }
  return now;
}

function push(nodes: Node[], text: string, styles: readonly number[]): void {
  if (!text) return;
  const node = document.createTextNode(text);
  if (styles.length === 0) {
    nodes.push(node);
    return;
  }
  const span = document.createElement("span");
  span.className = styles.map((style) => `ansi-${style}`).join(" ");
  span.append(node);
  nodes.push(span);
}
