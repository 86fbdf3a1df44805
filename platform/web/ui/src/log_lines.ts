// The text of one part of a log on the screen. What comes in pieces is cut at line ends: finished lines are painted once,
// and only the last, open line is painted anew, so that a progress bar that rewrites itself stays one line.

import { paint } from "./ansi.ts";

export class LogLines {
  readonly element = document.createElement("span");
  offset: number;
  end: number;
  #open = document.createElement("span");
  #openText = "";
  #styles: readonly number[];

  constructor(offset: number, styles: readonly number[] = []) {
    this.offset = this.end = offset;
    this.#styles = styles;
    this.element.append(this.#open);
  }

  /** The colours that are on at the end of the finished lines. */
  get styles(): readonly number[] {
    return this.#styles;
  }

  append(text: string, end: number): void {
    const [finished, open] = splitLines(this.#openText + text);
    const painted = paint(finished, this.#styles);
    this.#open.before(...painted.nodes);
    this.#styles = painted.styles;
    this.#openText = open;
    this.#open.replaceChildren(...paint(open, this.#styles).nodes);
    this.end = end;
  }

  /** Whether another part may begin after it: it is long enough, and no line of it is open. */
  isFull(bytes: number): boolean {
    return this.end - this.offset > bytes && !this.#openText;
  }
}

/** The finished lines of a text, and what follows the last line end. */
export function splitLines(text: string): [finished: string, open: string] {
  const end = text.lastIndexOf("\n") + 1;
  return [text.slice(0, end), text.slice(end)];
}
