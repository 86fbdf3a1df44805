// <upload-panel>: files and folders that are dropped on the page or chosen become one commit. The markup is the
// server's (datasets/upload.html): this shows the stage that an upload is at, and moves it on.

import { formatBytes, formatCounted, formatDuration } from "../format.ts";
import { listenForDrops } from "./drops.ts";
import { cleanFolder } from "./names.ts";
import { Meter } from "./meter.ts";
import { planParts, planRest, sizeOf, type Part } from "./parts.ts";
import { Queue, Refusal, type Progress } from "./queue.ts";
import { listChosen, topFolder, walk, type Found, type Listing } from "./traversal.ts";
import { forget, recall, remember } from "./unfinished.ts";
import { UploadApi, type Commit, type Upload } from "./upload_api.ts";

type Stage = "choosing" | "ready" | "sending" | "moved" | "done";

const SHOWN_LEFT_OUT = 5;

export class UploadPanel extends HTMLElement {
  #listing: Listing | undefined;
  #upload: Upload | undefined;
  #queue: Queue | undefined;
  #api!: UploadApi;
  #meter = new Meter();
  #isWritten = false;
  #leaving = new AbortController();

  connectedCallback(): void {
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    const token = this.querySelector<HTMLInputElement>("[name=csrfmiddlewaretoken]")?.value ?? "";
    this.#api = new UploadApi(this.#setting("dataset"), token);
    listenForDrops({ mayTake: () => !this.#queue, onDrop: (entries) => void this.#look(entries), signal });
    for (const kind of ["files", "folder"]) {
      const input = this.#part<HTMLInputElement>(`${kind}-input`);
      this.#part(`choose-${kind}`).addEventListener("click", () => input.click(), { signal });
      const take = () => {
        this.#take(listChosen(input.files ?? []));
        input.value = ""; // or choosing the same again would be no change
      };
      input.addEventListener("change", take, { signal });
    }
    this.#part("message").addEventListener("input", () => (this.#isWritten = true), { signal });
    this.#part("form").addEventListener("submit", (event) => this.#submit(event), { signal });
    this.#part("cancel").addEventListener("click", () => void this.#cancel(), { signal });
    this.#part("build-on").addEventListener("click", () => void this.#commit(), { signal });
    this.#dialog.addEventListener(
      "close",
      () => this.#stage === "done" && location.assign(this.#part<HTMLAnchorElement>("look").href),
      { signal },
    );
    addEventListener("beforeunload", (event) => this.#queue && event.preventDefault(), { signal });
    this.#show("choosing");
    this.#tellOfUnfinished();
  }

  disconnectedCallback(): void {
    this.#leaving.abort();
    this.#queue?.stop();
  }

  async #look(entries: FileSystemEntry[]): Promise<void> {
    this.#open();
    this.#say("summary", "Reading the dropped files…");
    this.#take(await walk(entries, (files) => this.#say("summary", `${formatCounted(files, "file")} so far…`)));
  }

  #take(listing: Listing): void {
    this.#listing = listing;
    const { found, leftOut, litter } = listing;
    const files = formatCounted(found.length, "file");
    this.#say("summary", found.length ? `${files}, ${formatBytes(sizeOf(found))}` : "It contains no files.");
    const notes = leftOut.slice(0, SHOWN_LEFT_OUT).map(({ path, why }) => `Left out: ${path} (${why}).`);
    if (leftOut.length > SHOWN_LEFT_OUT)
      notes.push(`And ${formatCounted(leftOut.length - SHOWN_LEFT_OUT, "more file")} left out.`);
    if (litter) notes.push(`${formatCounted(litter, "file")} of the file manager left out.`);
    this.#list("left-out", notes);
    const top = topFolder(found);
    this.#part("top").hidden = top === null;
    this.#say("top-name", top ?? "");
    const message = this.#part<HTMLInputElement>("message");
    if (!this.#isWritten) message.value = found.length === 1 ? `Add ${found[0]?.file.name}` : `Add ${files}`;
    this.#show(found.length ? "ready" : "choosing");
    if (found.length) message.select();
  }

  #submit(event: Event): void {
    event.preventDefault();
    if (this.#stage === "ready") void this.#run();
  }

  async #run(): Promise<void> {
    const folder = cleanFolder(this.#part<HTMLInputElement>("folder").value);
    const top =
      this.#part("top").hidden || !this.#part<HTMLInputElement>("without-top").checked
        ? ""
        : `${this.#part("top-name").textContent}/`;
    const place = (path: string) => [folder, path.slice(top.length)].filter(Boolean).join("/");
    const found = (this.#listing?.found ?? []).map(({ path, file }) => ({ path: place(path), file }));
    this.#show("sending");
    this.#meter = new Meter();
    try {
      const { parts, there } = await this.#begin(found);
      await this.#send(parts, found, there);
      // A cancelled upload has gone back to choosing.
      if (this.#stage === "sending") await this.#commit();
    } catch (error) {
      if (this.#stage === "sending") this.#fail(error);
    }
  }

  /** Start an upload, or go on with one that was interrupted: what came whole is not sent again. */
  async #begin(found: Found[]): Promise<{ parts: Part[]; there: Found[] }> {
    const dataset = this.#setting("dataset");
    const kept = this.#upload ?? recall(dataset, this.#setting("branch"));
    if (kept) {
      try {
        const plan = planRest(found, await this.#api.listArrived(kept.id));
        if (plan) {
          this.#upload = kept;
          return plan;
        }
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
      }
      forget(dataset);
    }
    this.#upload = await this.#api.start(this.#setting("branch"));
    remember(dataset, this.#upload, found.length, sizeOf(found));
    return { parts: planParts(found), there: [] };
  }

  async #send(parts: Part[], found: Found[], there: Found[]): Promise<void> {
    const { id } = this.#upload ?? { id: "" };
    const total = { files: found.length, bytes: sizeOf(found) };
    const before = { files: there.length, bytes: sizeOf(there) };
    this.#queue = new Queue(parts, {
      send: (part, body, onBytes) => this.#api.send(id, part, body, onBytes),
      onProgress: (progress) => this.#progress(progress, before, total),
      wait,
    });
    try {
      await this.#queue.run();
    } finally {
      this.#queue = undefined;
    }
  }

  #progress(now: Progress, before: { files: number; bytes: number }, total: { files: number; bytes: number }): void {
    const bytes = Math.min(total.bytes, before.bytes + now.bytes);
    this.#meter.note(bytes, performance.now());
    const share = total.bytes ? bytes / total.bytes : 1;
    this.#part<HTMLProgressElement>("bar").value = share;
    const rate = this.#meter.rate();
    const left = this.#meter.secondsTo(total.bytes);
    const percent = `${Math.floor(share * 100)} %`;
    this.#say("percent", percent);
    this.#say(
      "counts",
      `${(before.files + now.files).toLocaleString("en-US")} of ${formatCounted(total.files, "file")}`,
    );
    this.#say("bytes", `${formatBytes(bytes)} of ${formatBytes(total.bytes)}`);
    this.#say("rate", rate === null ? "" : `${formatBytes(rate)}/s`);
    this.#say("left", left === null ? "" : `about ${formatDuration(left)} left`);
    this.#say(
      "trouble",
      now.retryInS === null ? "" : `The connection broke. Trying again in ${now.retryInS} s; nothing is lost.`,
    );
    for (const opener of document.querySelectorAll<HTMLElement>("[data-upload-state]"))
      opener.textContent = `Uploading ${percent}`;
  }

  async #commit(): Promise<void> {
    const upload = this.#upload;
    if (!upload) return;
    this.#show("sending");
    this.#say("left", "writing the commit");
    try {
      const made = await this.#api.commit(upload.id, upload.head, this.#part<HTMLInputElement>("message").value.trim());
      forget(this.#setting("dataset"));
      this.#finish(made, made.id === upload.head);
    } catch (error) {
      const head =
        error instanceof Refusal && error.code === "datasets.stale_parent" ? error.details["head"] : undefined;
      if (typeof head !== "string") return this.#fail(error);
      await this.#tellMoved(upload, head);
    }
  }

  async #tellMoved(upload: Upload, head: string): Promise<void> {
    const theirs = await this.#api.describe(head);
    upload.head = head;
    this.#say(
      "theirs",
      `${theirs.author} committed “${theirs.message || "no message"}” (${theirs.short}: +${theirs.added} −${theirs.removed} ~${theirs.changed}) ` +
        `to ${upload.branch} meanwhile. Your files are all here; build on it to keep both; yours replaces files with the same path.`,
    );
    this.#show("moved");
    this.#open();
    this.#part("build-on").focus();
  }

  #finish(made: Commit, isNothing: boolean): void {
    this.#upload = undefined;
    const what = `${made.short}: +${made.added.toLocaleString("en-US")} −${made.removed} ~${made.changed.toLocaleString("en-US")}`;
    this.#say(
      "result",
      isNothing ? "Nothing changed: the dataset holds exactly these files already." : `Committed ${what}`,
    );
    const compare = this.#part<HTMLAnchorElement>("compare");
    compare.href = `${this.#setting("page")}compare/?ref=${made.id}`;
    compare.hidden = isNothing;
    this.#show("done");
    this.#open();
    this.#part("look").focus();
  }

  #fail(error: unknown): void {
    this.#show("ready");
    this.#open();
    this.#say(
      "error",
      error instanceof Refusal
        ? error.message
        : "The server does not answer. Nothing is lost: press Upload again in a moment.",
    );
  }

  async #cancel(): Promise<void> {
    this.#queue?.stop();
    this.#queue = undefined;
    const id = this.#upload?.id;
    this.#upload = undefined;
    forget(this.#setting("dataset"));
    if (id) await this.#api.cancel(id).catch(() => undefined);
    this.#show("choosing");
    this.#say("summary", "Cancelled. Nothing was committed.");
  }

  #tellOfUnfinished(): void {
    const kept = recall(this.#setting("dataset"), this.#setting("branch"));
    if (!kept) return;
    const size = `${formatCounted(kept.files, "file")}, ${formatBytes(kept.bytes)}`;
    this.#say(
      "summary",
      `An upload of ${size} was interrupted. Choose the same files again: what has come is not sent twice.`,
    );
  }

  /** Whoever closed the dialog meanwhile sees it again: the upload went on and has something to say. */
  #open(): void {
    if (!this.#dialog.open) this.#dialog.showModal();
  }

  get #dialog(): HTMLDialogElement {
    return this.#part<HTMLDialogElement>("dialog");
  }

  get #stage(): Stage {
    return this.#dialog.dataset["stage"] as Stage;
  }

  #show(stage: Stage): void {
    this.#dialog.dataset["stage"] = stage;
    for (const part of this.querySelectorAll<HTMLElement>("[data-at]")) {
      part.hidden = !(part.dataset["at"] ?? "").split(" ").includes(stage);
    }
    this.#say("error", "");
    if (stage === "sending") return;
    this.#say("trouble", "");
    for (const opener of document.querySelectorAll<HTMLElement>("[data-upload-state]")) opener.textContent = "Upload";
  }

  #say(name: string, text: string): void {
    const place = this.#part(name);
    if (place.textContent !== text) place.textContent = text;
    if (place.matches(".note")) place.hidden = text === "";
  }

  #list(name: string, lines: string[]): void {
    this.#part(name).replaceChildren(
      ...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })),
    );
  }

  #setting(name: string): string {
    return this.dataset[name] ?? "";
  }

  #part<Kind extends HTMLElement = HTMLElement>(name: string): Kind {
    const found = this.querySelector<Kind>(`[data-upload="${name}"]`);
    if (!found) throw new Error(`the upload panel has no part '${name}'`);
    return found;
  }
}

function wait(seconds: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, seconds * 1000);
    addEventListener("online", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
