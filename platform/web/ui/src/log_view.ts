// <log-view>: a log of any length. It opens at the end and follows what is written; what lies above or below is fetched
// when somebody scrolls there, and what is far away is let go, so that memory stays bounded. Searching is the server's
// work, as most of the log is not here. The text is coloured here and never read as HTML.

import { formatMoment } from "./format.ts";
import { LogLines } from "./log_lines.ts";
import { markMatches } from "./log_search.ts";

type Part = {
  offset: number;
  text: string;
  next_offset: number;
  size_bytes: number;
  is_complete: boolean;
  stored_at: string | null;
};
type Places = { count: number; offsets: number[] };

const POLL_MS = 1000;
const SEARCH_AFTER_MS = 300;
const NEAR_PX = 600;
const AT_END_PX = 30;
const PART_BYTES = 64 * 1024;
const MOST_PARTS = 8;
const WRAP_KEY = "log-wrap";

export class LogView extends HTMLElement {
  #parts: LogLines[] = [];
  #size = 0;
  #isOver = false;
  /** Up to when all that the job wrote is here; null: nothing says so. */
  #freshAt: Date | null = null;
  #isBusy = false;
  #timer = 0;
  #searchTimer = 0;
  #wanted = "";
  #places: Places = { count: 0, offsets: [] };
  #place = -1;

  connectedCallback(): void {
    const screen = this.#screen;
    screen.addEventListener("scroll", () => void this.#fill(), { passive: true });
    this.#part("search")?.addEventListener("input", () => this.#searchSoon());
    this.#part("search")?.addEventListener("keydown", (event) => this.#onSearchKey(event));
    this.#part("previous")?.addEventListener("click", () => void this.#goTo(this.#place - 1));
    this.#part("next")?.addEventListener("click", () => void this.#goTo(this.#place + 1));
    this.#part("follow")?.addEventListener("change", () => this.#isFollowing && void this.#open());
    this.#part("wrap")?.addEventListener("change", () => this.#wrap());
    this.#restoreWrap();
    void this.#open();
  }

  disconnectedCallback(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#searchTimer);
  }

  // --- reading

  /** Show the end of the log and go on from there. */
  async #open(): Promise<void> {
    clearTimeout(this.#timer);
    const part = await this.#read({});
    if (!this.isConnected) return;
    if (part) {
      this.#show([part]);
      this.#screen.scrollTop = this.#screen.scrollHeight;
      void this.#fill();
    }
    this.#pollSoon(part);
  }

  async #poll(): Promise<void> {
    const last = this.#parts.at(-1);
    // Who looks at an earlier place does not need the news; how long the log is, `fill` sees when they come down.
    const part = document.hidden || !last || !this.#holdsEnd ? null : await this.#read({ offset: last.end });
    if (!this.isConnected) return;
    // Only what lies beyond the stored part is read where the job runs.
    if (part) this.#freshAt = new Date();
    if (part && hasMoved(part)) {
      const wasAtEnd = this.#isAtEnd;
      this.#append(part);
      if (this.#wanted) void this.#countAgain();
      // Who scrolled up is reading: the log then grows below without moving.
      if (wasAtEnd && this.#isFollowing) {
        this.#dropFirst();
        this.#screen.scrollTop = this.#screen.scrollHeight;
      } else this.#dropLast();
    }
    this.#pollSoon(part);
  }

  #pollSoon(part: Part | null): void {
    this.#isOver = part ? part.is_complete : this.#isOver;
    if (this.#isOver) this.#say("state", "complete");
    else
      this.#timer = window.setTimeout(
        () => void this.#poll(),
        part && hasMoved(part) && part.next_offset < part.size_bytes ? 0 : POLL_MS,
      );
    if (this.#isOver && this.#size === 0) this.#screen.textContent = "The job wrote nothing.";
  }

  /** Fetch what somebody is about to scroll to, and let go of what is far from it. */
  async #fill(): Promise<void> {
    const screen = this.#screen;
    const [first, last] = [this.#parts[0], this.#parts.at(-1)];
    if (this.#isBusy || !first || !last) return;
    this.#isBusy = true;
    const isNearEnd = screen.scrollHeight - screen.scrollTop - screen.clientHeight < NEAR_PX;
    let isHidden = false;
    try {
      if (first.offset > 0 && screen.scrollTop < NEAR_PX) {
        const part = await this.#read({ before: first.offset });
        if (part && this.#parts[0] === first) this.#prepend(part);
        isHidden = part?.text === "" && part.offset < first.offset;
      } else if (isNearEnd && !this.#holdsEnd) {
        const part = await this.#read({ offset: last.end });
        if (part && hasMoved(part) && this.#parts.at(-1) === last) {
          this.#append(part);
          this.#dropFirst();
          isHidden = part.text === "";
        }
      }
    } finally {
      this.#isBusy = false;
    }
    // Nothing of that part is shown, so nobody can scroll on from it.
    if (isHidden) void this.#fill();
    else if (this.#isOver && this.#parts[0]?.offset === 0 && this.#holdsEnd && !screen.textContent) {
      this.#say("state", "complete: the job wrote nothing but what it recorded");
    }
  }

  async #read(query: { offset?: number; before?: number }): Promise<Part | null> {
    const part = await this.#ask<Part>("", query);
    if (part) this.#size = part.size_bytes;
    // What is stored says nothing of the resource; where nothing is, the job was asked.
    if (part) this.#freshAt ??= part.stored_at ? new Date(part.stored_at) : new Date();
    return part;
  }

  async #ask<Answer>(below: string, query: Record<string, string | number>): Promise<Answer | null> {
    try {
      const address = new URL(`${this.dataset["src"] ?? ""}${below}`, location.href);
      for (const [name, value] of Object.entries(query)) address.searchParams.set(name, String(value));
      const answer = await fetch(address, { headers: { Accept: "application/json" } });
      if (!answer.ok) {
        this.#say("state", `${await titleOf(answer)} ${this.#describeFreshness()} Trying again.`);
        return null;
      }
      this.#say("state", this.#isOver ? "complete" : "following, up to date");
      return (await answer.json()) as Answer;
    } catch {
      this.#say("state", `The server does not answer. ${this.#describeFreshness()} Trying again.`);
      return null;
    }
  }

  #describeFreshness(): string {
    if (!this.#freshAt) return "None of the log is stored yet.";
    return `Here is what the job wrote until ${formatMoment(this.#freshAt)}.`;
  }

  // --- the window of parts

  #show(parts: Part[]): void {
    this.#parts = [];
    this.#screen.replaceChildren();
    for (const part of parts) this.#append(part);
  }

  #append({ offset, text, next_offset: end }: Part): void {
    const last = this.#parts.at(-1);
    const lines = last && !last.isFull(PART_BYTES) ? last : this.#begin(offset, last?.styles);
    lines.append(text, end);
    this.#mark(lines);
  }

  #begin(offset: number, styles: readonly number[] = []): LogLines {
    const lines = new LogLines(offset, styles);
    this.#parts.push(lines);
    this.#screen.append(lines.element);
    return lines;
  }

  #prepend({ offset, text, next_offset: end }: Part): void {
    const screen = this.#screen;
    const first = this.#parts[0];
    if (first && !text) {
      // Nothing of it is shown: as a part of its own it would take the place of one that is.
      first.offset = offset;
      return;
    }
    const lines = new LogLines(offset);
    lines.append(text, end);
    const before = screen.scrollHeight - screen.scrollTop;
    this.#parts.unshift(lines);
    screen.prepend(lines.element);
    screen.scrollTop = screen.scrollHeight - before;
    this.#mark(lines);
    this.#dropLast();
  }

  #dropFirst(): void {
    const screen = this.#screen;
    while (this.#parts.length > MOST_PARTS) {
      const before = screen.scrollHeight - screen.scrollTop;
      this.#parts.shift()?.element.remove();
      screen.scrollTop = screen.scrollHeight - before;
    }
  }

  #dropLast(): void {
    while (this.#parts.length > MOST_PARTS) this.#parts.pop()?.element.remove();
  }

  get #holdsEnd(): boolean {
    return (this.#parts.at(-1)?.end ?? 0) >= this.#size;
  }

  get #isAtEnd(): boolean {
    return this.#screen.scrollHeight - this.#screen.scrollTop - this.#screen.clientHeight < AT_END_PX;
  }

  get #isFollowing(): boolean {
    return this.#part("follow")?.checked !== false;
  }

  // --- searching

  #searchSoon(): void {
    clearTimeout(this.#searchTimer);
    this.#searchTimer = window.setTimeout(() => void this.#search(), SEARCH_AFTER_MS);
  }

  async #search(): Promise<void> {
    const wanted = this.#part("search")?.value ?? "";
    const found = wanted ? await this.#ask<Places>("places/", { text: wanted }) : null;
    if (wanted !== (this.#part("search")?.value ?? "")) return;
    this.#wanted = wanted;
    this.#places = found ?? { count: 0, offsets: [] };
    for (const part of this.#parts) this.#mark(part);
    if (this.#places.count) await this.#goTo(this.#places.offsets.length - 1);
    else this.#say("found", wanted ? "not found" : "");
  }

  /** Bring the number of places up to date as the log grows; what is shown stays where it is. */
  async #countAgain(): Promise<void> {
    const wanted = this.#wanted;
    const found = await this.#ask<Places>("places/", { text: wanted });
    if (!found || wanted !== this.#wanted) return;
    const place = this.#places.offsets[this.#place];
    this.#places = found;
    this.#place = place === undefined ? -1 : found.offsets.indexOf(place);
    this.#tellPlace();
  }

  #onSearchKey(event: KeyboardEvent): void {
    if (event.key !== "Enter") return;
    event.preventDefault();
    void this.#goTo(this.#place + (event.shiftKey ? 1 : -1));
  }

  /** Show the log around one of the places, counted from the first that the server told. */
  async #goTo(number: number): Promise<void> {
    const { offsets } = this.#places;
    if (!offsets.length) return;
    this.#place = (number + offsets.length) % offsets.length;
    const place = offsets[this.#place] ?? 0;
    const [above, below] = [
      place > 0 ? await this.#read({ before: place }) : null,
      await this.#read({ offset: place }),
    ];
    if (!below) return;
    this.#show(above ? [above] : []);
    const lines = this.#begin(place);
    lines.append(below.text, below.next_offset);
    this.#mark(lines);
    const mark = lines.element.querySelector("mark");
    mark?.classList.add("current");
    (mark ?? lines.element).scrollIntoView({ block: "center" });
    this.#tellPlace();
  }

  #tellPlace(): void {
    const { offsets, count } = this.#places;
    const number = this.#place < 0 ? "" : `${count - offsets.length + this.#place + 1} of `;
    this.#say("found", count ? `${number}${count}` : "not found");
  }

  #mark(lines: LogLines): void {
    if (this.#wanted || lines.element.querySelector("mark")) markMatches(lines.element, this.#wanted);
  }

  // --- what stands around it

  #wrap(): void {
    const isWrapped = this.#part("wrap")?.checked !== false;
    this.#screen.classList.toggle("unwrapped", !isWrapped);
    localStorage.setItem(WRAP_KEY, String(isWrapped));
  }

  #restoreWrap(): void {
    const box = this.#part("wrap");
    if (box) box.checked = localStorage.getItem(WRAP_KEY) !== "false";
    this.#wrap();
  }

  get #screen(): HTMLElement {
    return this.querySelector("pre") as HTMLElement;
  }

  #part(name: string): HTMLInputElement | null {
    return this.querySelector<HTMLInputElement>(`[data-log="${name}"]`);
  }

  #say(place: string, text: string): void {
    const output = this.#part(place);
    if (output && output.textContent !== text) output.textContent = text;
  }
}

/** What a problem says in its first sentence; without one, the status. */
async function titleOf(answer: Response): Promise<string> {
  if (!answer.headers.get("Content-Type")?.startsWith("application/problem+json"))
    return `The server answers ${answer.status}.`;
  return ((await answer.json()) as { title: string }).title;
}

/** Whether a part is a step forward, even where none of its text is shown: the platform's own lines are left out. */
function hasMoved(part: Part): boolean {
  return part.next_offset > part.offset;
}
