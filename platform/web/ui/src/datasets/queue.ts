// Sends parts, a few at once. What a broken connection or a stumbling server cuts off is sent again for as long as it
// takes; what the server refuses ends the upload with the server's own words.

import { bodyOf, sizeOf, type Part } from "./parts.ts";

export type PartAnswer = { next_offset: number | null };
export type Progress = { files: number; bytes: number; retryInS: number | null };

/** Sends one body. Rejects with a Refusal for what repeating cannot cure, and with anything else for what it can. */
export type Send = (part: Part, body: Blob, onBytes: (sent: number) => void) => Promise<PartAnswer>;

export type Options = {
  send: Send;
  onProgress: (progress: Progress) => void;
  /** Waits so many seconds, or less when the connection is back. */
  wait: (seconds: number) => Promise<void>;
  atOnce?: number;
};

export class Refusal extends Error {
  readonly code: string;
  readonly details: Record<string, unknown>;

  constructor(message: string, code: string, details: Record<string, unknown> = {}) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

const AT_ONCE = 3;
const LONGEST_WAIT_S = 15;

export class Queue {
  readonly #options: Options;
  readonly #waiting: Part[];
  readonly #underWay = new Map<number, number>();
  #files = 0;
  #bytes = 0;
  #retryInS: number | null = null;
  #isStopped = false;

  constructor(parts: readonly Part[], options: Options) {
    this.#options = options;
    this.#waiting = [...parts];
    for (const part of parts) this.#bytes += part.startsAt;
  }

  stop(): void {
    this.#isStopped = true;
  }

  /** Resolves when every part has come. Rejects with the first Refusal. */
  async run(): Promise<void> {
    const workers = Array.from({ length: this.#options.atOnce ?? AT_ONCE }, () => this.#work());
    try {
      await Promise.all(workers);
    } finally {
      this.#isStopped = true;
    }
  }

  async #work(): Promise<void> {
    for (let part = this.#waiting.shift(); part && !this.#isStopped; part = this.#waiting.shift()) {
      await this.#bring(part);
      this.#files += part.files.length;
      this.#report();
    }
  }

  async #bring(part: Part): Promise<void> {
    const total = sizeOf(part.files);
    let offset: number | null = part.startsAt;
    while (offset !== null && !this.#isStopped) {
      const from: number = offset;
      const answer = await this.#insist(part, from);
      if (!answer) return;
      offset = answer.next_offset;
      this.#underWay.delete(part.number);
      this.#bytes += (offset ?? total) - from;
      this.#report();
    }
  }

  /** Send a body until it has come; null once stopped. */
  async #insist(part: Part, offset: number): Promise<PartAnswer | null> {
    for (let attempt = 0; !this.#isStopped; attempt += 1) {
      try {
        const body = bodyOf(part, offset);
        const answer = await this.#options.send(part, body, (sent) => this.#note(part, Math.min(sent, body.size)));
        this.#retryInS = null;
        return answer;
      } catch (error) {
        this.#note(part, 0);
        if (error instanceof Refusal || this.#isStopped) throw error;
        await checkReadable(part);
        const seconds = Math.min(LONGEST_WAIT_S, 2 ** attempt);
        this.#retryInS = seconds;
        this.#report();
        await this.#options.wait(seconds);
      }
    }
    return null;
  }

  #note(part: Part, sent: number): void {
    this.#underWay.set(part.number, sent);
    this.#report();
  }

  #report(): void {
    let bytes = this.#bytes;
    for (const sent of this.#underWay.values()) bytes += sent;
    this.#options.onProgress({ files: this.#files, bytes, retryInS: this.#retryInS });
  }
}

/** A file that changed or vanished looks like a broken connection; sending it again would never end. */
async function checkReadable(part: Part): Promise<void> {
  for (const { path, file } of part.files) {
    try {
      await file.slice(0, 1).arrayBuffer();
    } catch {
      throw new Refusal(`'${path}' changed or vanished while it was being sent.`, "browser.file_changed");
    }
  }
}
