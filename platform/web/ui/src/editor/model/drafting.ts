// Nothing that was written is lost: every change goes into this browser at once and to the server at the next pause.

import { ApiError, call } from "./api.ts";
import type { Draft } from "./editor.ts";
import type { Layout, Moment } from "./history.ts";
import type { EditorStore } from "./store.ts";

const PAUSE_MS = 1000;
const AGAIN_MS = 5000;

type Kept = "clean" | "writing" | "kept" | "here"; // `here`: in this browser only, the server does not answer
export type Other = {
  kind: "window" | "version";
  title: string;
  text: string;
  layout: Layout;
  revision?: number;
  number?: number;
};

export type Place = { project: string; key: string; user: string };
type Local = Draft & { at: number };

export class Drafting {
  kept: Kept = "clean";
  at: Date | null = null;
  base: number | null;
  newest: number | null;
  revision: number;
  example: string;
  other: Other | null = null; // somebody else's text that is to be decided about
  readonly place: Place;
  #store: EditorStore;
  #mayWrite: boolean;
  #clean: Moment;
  #cleanNumber: number | null; // of the version that `#clean` is
  #sent: Moment;
  #failed: Moment | null = null; // what the server has not answered to; it is sent again by `#timer`
  #timer = 0;
  #sending: Promise<void> | null = null;

  // `clean` is what the newest version says, `draft` what the server has kept.
  constructor(
    store: EditorStore,
    place: Place,
    clean: Moment,
    draft: Draft | null,
    newest: number | null,
    mayWrite: boolean,
  ) {
    this.#store = store;
    this.place = place;
    this.#clean = clean;
    this.#cleanNumber = newest;
    this.#sent = store.now;
    this.#mayWrite = mayWrite;
    this.newest = newest;
    this.base = draft && !isSame(store.now, clean) ? draft.base_version : newest;
    this.revision = draft?.revision ?? 0;
    this.example = draft?.example ?? "";
    if (draft) [this.kept, this.at] = ["kept", new Date(draft.updated_at)];
    this.#recall(draft);
    store.subscribe(() => this.#look());
  }

  get isDirty(): boolean {
    return this.base === null || !isSame(this.#store.now, this.#clean);
  }

  // Somebody else's text is to be decided about, now or when this one is to be kept.
  get isOvertaken(): boolean {
    return this.other !== null || (this.base !== null && this.newest !== null && this.newest > this.base);
  }

  // Sends nothing more until the next change, and waits for what is on its way.
  async hush(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#sending;
    clearTimeout(this.#timer);
  }

  // Goes on after a deed that came to nothing.
  resume(): void {
    this.#failed = null;
    this.#look();
    this.#tell();
  }

  // What was published is clean from now on, under its own name.
  settle(key: string, moment: Moment, number: number): void {
    clearTimeout(this.#timer);
    forget(this.place);
    this.place.key = key;
    [this.base, this.newest, this.revision, this.kept, this.other] = [number, number, 0, "clean", null];
    [this.#clean, this.#sent, this.#cleanNumber] = [moment, moment, number];
    this.#look();
    this.#tell();
  }

  // Goes on from somebody else's state, with a text that this person chose.
  adopt(other: Other, moment: Moment): void {
    this.other = null;
    if (other.revision !== undefined) this.revision = other.revision;
    if (other.number !== undefined) {
      [this.base, this.newest] = [other.number, other.number];
      [this.#clean, this.#cleanNumber] = [{ text: other.text, layout: other.layout }, other.number];
    }
    this.#store.restore(moment);
    this.#later(0);
  }

  async compareWithNewest(): Promise<void> {
    const { project, key } = this.place;
    const path = `/flows/${encodeURIComponent(project)}/${encodeURIComponent(key)}`;
    await this.#try(async () => {
      const { version } = await call<{ version: Record<string, unknown> }>("GET", path);
      this.other = fromVersion(version);
    });
  }

  async discard(): Promise<void> {
    await this.hush();
    this.#store.restore(this.#clean);
    this.#sent = this.#store.now;
    clearTimeout(this.#timer);
    const query = new URLSearchParams({ project: this.place.project, key: this.place.key });
    await this.#try(async () => {
      await call("DELETE", `/flows/drafts?${query.toString()}`);
      forget(this.place);
      [this.base, this.revision, this.kept, this.at] = [this.#cleanNumber, 0, "clean", null];
    });
  }

  #look(): void {
    const now = this.#store.now;
    if (isSame(now, this.#sent) || (this.#failed && isSame(now, this.#failed))) return;
    remember(this.place, { ...this.#draft(now), at: Date.now() });
    if (this.kept !== "writing") {
      this.kept = "writing";
      queueMicrotask(() => this.#tell());
    }
    this.#later(PAUSE_MS);
  }

  #later(pause: number): void {
    clearTimeout(this.#timer);
    if (this.#mayWrite) this.#timer = window.setTimeout(() => this.#send(), pause);
    else this.kept = "here";
  }

  #send(): void {
    if (this.other?.kind === "window") return;
    if (this.#sending) this.#later(PAUSE_MS);
    else {
      this.#sending = this.#put().finally(() => {
        this.#sending = null;
        this.#tell();
      });
    }
  }

  async #put(): Promise<void> {
    const moment = this.#store.now;
    try {
      const { updated_at: _, ...draft } = this.#draft(moment);
      const body = { project: this.place.project, key: this.place.key, ...draft };
      const kept = await call<{ revision: number; updated_at: string; newest_version: number | null }>(
        "PUT",
        "/flows/drafts",
        body,
      );
      [this.revision, this.at, this.newest, this.kept] = [
        kept.revision,
        new Date(kept.updated_at),
        kept.newest_version,
        "kept",
      ];
      [this.#sent, this.#failed] = [moment, null];
      if (isSame(this.#store.now, moment)) forget(this.place);
      else this.#later(PAUSE_MS);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      [this.kept, this.#failed] = ["here", moment];
      if (error.code === "flows.draft_moved") this.other = fromWindow(error.details);
      else if (error.isPassing) this.#later(AGAIN_MS);
      else this.#store.say(error.message);
    }
  }

  // A copy that never reached the server comes back. One that another window has overtaken is to be decided about.
  #recall(draft: Draft | null): void {
    const local = recall(this.place);
    if (!local || isSame(local, this.#store.now)) return;
    if (!draft || local.revision === draft.revision) {
      [this.base, this.example] = [local.base_version, local.example];
      this.#store.restore(local);
      this.#look();
    } else {
      this.#store.restore(local);
      this.other = { kind: "window", title: "The draft on the server", ...draft };
    }
  }

  #draft({ text, layout }: Moment): Draft {
    return { text, layout, base_version: this.base, example: this.example, revision: this.revision, updated_at: "" };
  }

  async #try(deed: () => Promise<void>): Promise<void> {
    try {
      await deed();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.#store.say(error.message);
    }
    this.#tell();
  }

  #tell(): void {
    this.#store.set({});
  }
}

function fromWindow(details: Record<string, unknown>): Other {
  const { text, layout, revision } = details as unknown as Draft;
  return { kind: "window", title: "Your other window", text, layout, revision };
}

export function fromVersion(details: Record<string, unknown>): Other {
  const { text, layout, number, created_by } = details as {
    text: string;
    layout?: Layout;
    number: number;
    created_by: string;
  };
  return { kind: "version", title: `Version ${number} by ${created_by}`, text, layout: layout ?? {}, number };
}

export function isSame(one: Moment, other: Moment): boolean {
  return (
    one.text === other.text &&
    (one.layout === other.layout || JSON.stringify(sorted(one.layout)) === JSON.stringify(sorted(other.layout)))
  );
}

function sorted(layout: Layout): [string, readonly number[]][] {
  return Object.entries(layout).toSorted(([one], [other]) => (one < other ? -1 : 1));
}

// --- this browser's copy. Where the browser keeps nothing, the server's copy a second later has to do.

function nameOf({ user, project, key }: Place): string {
  return `nearline.draft ${user} ${project}/${key}`;
}

function remember(place: Place, local: Local): void {
  try {
    localStorage.setItem(nameOf(place), JSON.stringify(local));
  } catch {
    // Full, or not allowed.
  }
}

function recall(place: Place): Local | null {
  try {
    return JSON.parse(localStorage.getItem(nameOf(place)) ?? "null") as Local | null;
  } catch {
    return null;
  }
}

function forget(place: Place): void {
  try {
    localStorage.removeItem(nameOf(place));
  } catch {
    // Not allowed; nothing was kept either.
  }
}
