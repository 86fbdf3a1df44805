// The routes of datasets/api/part_routes.py as functions. Every failure is a Refusal (what the server says) or a
// broken connection (any other error), which trying again can cure.

import { Refusal, type PartAnswer } from "./queue.ts";
import type { Part } from "./parts.ts";

export type Upload = { id: string; branch: string; head: string | null };
export type Arrived = {
  items: { path: string; size_bytes: number; mtime_ms: number }[];
  unfinished: { number: number; path: string; size_bytes: number; mtime_ms: number }[];
  next_number: number;
};
export type Commit = {
  id: string;
  short: string;
  message: string;
  author: string;
  added: number;
  removed: number;
  changed: number;
};
type Problem = { title: string; hint: string; code: string; details: Record<string, unknown> };

/** What the server cannot do now but may soon: too many requests, a stumble, a restart. */
const PASSING = new Set([408, 425, 429, 500, 502, 503, 504]);

export class UploadApi {
  readonly #dataset: string;
  readonly #token: string;
  readonly #requests = new Set<XMLHttpRequest>();

  constructor(dataset: string, token: string) {
    this.#dataset = dataset;
    this.#token = token;
  }

  start(branch: string): Promise<Upload> {
    return this.#call("POST", `/api/v1/datasets/${this.#dataset}/uploads`, { branch, client_id: "browser" });
  }

  async listArrived(id: string): Promise<Arrived> {
    const all: Arrived = { items: [], unfinished: [], next_number: 0 };
    for (let cursor: string | null = ""; cursor !== null;) {
      const page: Arrived & { next_cursor: string | null } = await this.#call(
        "GET",
        `/api/v1/uploads/${id}/parts?cursor=${cursor}`,
      );
      for (const item of page.items) all.items.push(item);
      all.unfinished.push(...page.unfinished);
      all.next_number = page.next_number;
      cursor = page.next_cursor;
    }
    return all;
  }

  commit(id: string, expectedHead: string | null, message: string): Promise<Commit> {
    return this.#call("POST", `/api/v1/uploads/${id}/parts/commit`, { expected_head: expectedHead, message });
  }

  describe(ref: string): Promise<Commit> {
    return this.#call("GET", `/api/v1/datasets/${this.#dataset}/commits/${ref}`);
  }

  async cancel(id: string): Promise<void> {
    for (const request of this.#requests) request.abort();
    await this.#call("DELETE", `/api/v1/uploads/${id}`);
  }

  /** Send a part. XMLHttpRequest, because fetch does not tell how much has gone out. */
  send(id: string, part: Part, body: Blob, onBytes: (sent: number) => void): Promise<PartAnswer> {
    const request = new XMLHttpRequest();
    this.#requests.add(request);
    return new Promise<PartAnswer>((resolve, reject) => {
      request.upload.addEventListener("progress", (event) => onBytes(event.loaded));
      request.addEventListener("load", () => {
        try {
          resolve(read<PartAnswer>(request.status, request.responseText));
        } catch (error) {
          reject(error as Error);
        }
      });
      for (const end of ["error", "abort", "timeout"]) request.addEventListener(end, () => reject(new Error(end)));
      request.open("PUT", `/api/v1/uploads/${id}/parts/${part.number}`);
      request.setRequestHeader("Content-Type", "application/octet-stream");
      request.setRequestHeader("X-CSRFToken", this.#token);
      request.send(body);
    }).finally(() => this.#requests.delete(request));
  }

  async #call<Answer>(method: string, url: string, body?: object): Promise<Answer> {
    const headers = { "X-CSRFToken": this.#token, "Content-Type": "application/json" };
    const answer = await fetch(url, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
    return read<Answer>(answer.status, await answer.text());
  }
}

function read<Answer>(status: number, text: string): Answer {
  if (status >= 200 && status < 300) return (text ? JSON.parse(text) : undefined) as Answer;
  if (PASSING.has(status)) throw new Error(`the server answered ${status}`);
  const problem = problemOf(text);
  throw new Refusal(`${problem.title} ${problem.hint}`.trim(), problem.code, problem.details);
}

function problemOf(text: string): Problem {
  try {
    return JSON.parse(text) as Problem;
  } catch {
    return {
      title: "The server sent an invalid answer.",
      hint: "Try again.",
      code: "browser.no_answer",
      details: {},
    };
  }
}
