// Regions with data-live="TOPIC" are sent a `live` event when they should ask for themselves again: when the server's
// stream says that the topic changed, every data-every seconds besides, and more often while there is no stream.
// One stream a tab, for all its topics, and none while the tab is hidden: browsers open six connections to a host.

import { isAtWork } from "./polling.ts";

type News = { topic: string; stamp: string };

const LOOK_MS = 1000;
const GAP_MS = 400;
const BREATH = 3;
const WITHOUT_STREAM_MS = 3000;
const SILENCE_MS = 40_000;
const REOPEN_MS = 10_000;

/** What a region shows: since when, which version, and how long the last answer took. */
type Shown = { at: number; stamp: string | undefined; took: number };

/** What the server says each topic is at. */
const current = new Map<string, string>();
const shown = new Map<string, Shown>();

let stream: EventSource | undefined;
let streamed = "";
let heardAt = 0;
let openedAt = 0;
let timer = 0;

export function startLive(): void {
  document.addEventListener("htmx:beforeRequest", ({ target }) => isRegion(target) && note(target));
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { detail, target } = event as CustomEvent<{ shouldSwap: boolean; xhr: XMLHttpRequest }>;
    // A server that stumbles takes nothing away: what was shown stays, and is asked for again soon.
    if (!isRegion(target) || detail.xhr.status < 500) return;
    detail.shouldSwap = false;
    shown.set(target.id, { at: performance.now(), stamp: undefined, took: 0 });
  });
  document.addEventListener("htmx:afterRequest", ({ target }) => {
    const asked = isRegion(target) && shown.get(target.id);
    if (asked) asked.took = performance.now() - asked.at;
  });
  document.addEventListener("htmx:afterSettle", () => schedule(GAP_MS));
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", close);
  look();
}

function look(): void {
  clearTimeout(timer);
  const regions = [...document.querySelectorAll<HTMLElement>("[data-live][id]")];
  listen(regions);
  if (!document.hidden) for (const region of regions) if (isDue(region)) refresh(region);
  if (regions.length) timer = window.setTimeout(look, LOOK_MS);
}

function schedule(delay: number): void {
  clearTimeout(timer);
  timer = window.setTimeout(look, delay);
}

function isDue(region: HTMLElement): boolean {
  const was = shown.get(region.id) ?? note(region, region.dataset["stamp"]);
  if (region.classList.contains("htmx-request")) return false;
  const age = performance.now() - was.at;
  const stamp = isStreaming() ? current.get(topicOf(region)) : undefined;
  if (stamp === undefined || was.stamp === undefined) return age > WITHOUT_STREAM_MS;
  // A busy server, or a long page, is asked less often.
  return age > (stamp === was.stamp ? 1000 * Number(region.dataset["every"]) : Math.max(GAP_MS, BREATH * was.took));
}

function refresh(region: HTMLElement): void {
  if (region.hasAttribute("hx-get")) {
    if (!isAtWork(region)) region.dispatchEvent(new CustomEvent("live"));
    return;
  }
  note(region);
  region.dispatchEvent(new CustomEvent("live"));
}

/** Remember that a region asks now: what it gets is at least as new as the last news. */
function note(region: HTMLElement, stamp = current.get(topicOf(region))): Shown {
  const now = { at: performance.now(), stamp, took: shown.get(region.id)?.took ?? 0 };
  shown.set(region.id, now);
  return now;
}

function listen(regions: HTMLElement[]): void {
  const topics = [...new Set(regions.map(topicOf))].sort();
  const wanted = document.hidden ? "" : new URLSearchParams(topics.map((topic) => ["topic", topic])).toString();
  const now = performance.now();
  if (stream && now - heardAt > SILENCE_MS) close();
  // A stream that was refused as a whole is closed by the browser for good.
  if (stream?.readyState === EventSource.CLOSED && now - openedAt > REOPEN_MS) close();
  if (wanted === streamed) return;
  close();
  streamed = wanted;
  if (!wanted) return;
  heardAt = openedAt = now;
  stream = new EventSource(`/live/?${wanted}`);
  stream.addEventListener("changed", (event) => {
    const { topic, stamp } = hear<News>(event);
    const isNew = current.get(topic) !== stamp;
    current.set(topic, stamp);
    if (isNew) schedule(0);
  });
  stream.addEventListener("alive", hear);
  stream.addEventListener("error", () => current.clear());
}

function hear<Said>(event: MessageEvent<string>): Said {
  heardAt = performance.now();
  return JSON.parse(event.data) as Said;
}

function close(): void {
  stream?.close();
  stream = undefined;
  streamed = "";
  current.clear();
}

/** Only a stream that has said something counts: a proxy may hold one back without an error. */
function isStreaming(): boolean {
  return stream?.readyState === EventSource.OPEN && current.size > 0;
}

function topicOf(region: HTMLElement): string {
  return region.dataset["live"] ?? "";
}

function isRegion(target: EventTarget | null): target is HTMLElement {
  return target instanceof HTMLElement && target.hasAttribute("data-live");
}
