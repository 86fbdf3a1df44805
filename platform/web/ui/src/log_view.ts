// <log-view>: follows a growing log by asking for what lies after the last offset, as long as the job lives.
// The server answers JSON {text, next_offset, is_complete}; the text is coloured here and never read as HTML.

import { paint } from "./ansi.ts";
import { markMatches } from "./log_search.ts";

type Chunk = { text: string; next_offset: number; is_complete: boolean };

const POLL_MS = 1000;
const NEAR_END_PX = 30;

export class LogView extends HTMLElement {
  #offset = 0;
  #timer = 0;

  connectedCallback(): void {
    this.#part("search")?.addEventListener("input", () => this.#search());
    void this.#poll();
  }

  disconnectedCallback(): void {
    clearTimeout(this.#timer);
  }

  async #poll(): Promise<void> {
    const chunk = await this.#read();
    if (!this.isConnected) return;
    if (chunk) this.#append(chunk);
    if (chunk?.is_complete) this.#say("state", "complete");
    else this.#timer = window.setTimeout(() => void this.#poll(), chunk?.text ? 0 : POLL_MS);
  }

  async #read(): Promise<Chunk | null> {
    try {
      const address = new URL(this.dataset["src"] ?? "", location.href);
      address.searchParams.set("offset", String(this.#offset));
      const answer = await fetch(address);
      if (!answer.ok) throw new Error(String(answer.status));
      this.#say("state", "following");
      return (await answer.json()) as Chunk;
    } catch {
      this.#say("state", "the server does not answer; trying again");
      return null;
    }
  }

  #append(chunk: Chunk): void {
    const screen = this.querySelector("pre");
    if (!screen) return;
    const isAtEnd = screen.scrollHeight - screen.scrollTop - screen.clientHeight < NEAR_END_PX;
    screen.append(...paint(chunk.text));
    this.#offset = chunk.next_offset;
    if (chunk.is_complete && this.#offset === 0) screen.textContent = "The job wrote nothing.";
    if (this.#part("search")?.value) this.#search();
    // Who scrolled up is reading: the log then grows below without moving.
    if (isAtEnd && this.#part("follow")?.checked !== false) screen.scrollTop = screen.scrollHeight;
  }

  #search(): void {
    const screen = this.querySelector("pre");
    const wanted = this.#part("search")?.value ?? "";
    if (!screen) return;
    const count = markMatches(screen, wanted);
    this.#say("found", wanted ? `${count} found` : "");
  }

  #part(name: string): HTMLInputElement | null {
    return this.querySelector<HTMLInputElement>(`[data-log="${name}"]`);
  }

  #say(place: string, text: string): void {
    const output = this.#part(place);
    if (output && output.textContent !== text) output.textContent = text;
  }
}
