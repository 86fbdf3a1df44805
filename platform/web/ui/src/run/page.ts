// The page of a run. A step is chosen by its address; what the page shows of it is asked for like every other change:
// the server is told which parts the page has, and sends those that differ.

import { isAtWork } from "../polling.ts";

export const PICTURE_CHANGED = "run:picture";

// How often somebody chose what to see, up to which choice the page shows it, and which choice each request knew of.
// A choice may be made while the answer to the one before is under way or settling: each answer replaces the element
// that asks, and with it what that one was still to ask. So a choice that no request knew of is asked for again.
let choices = 0;
let sentChoice = 0;
let shownChoice = 0;
let arrivingChoice = 0;
const choiceOf = new WeakMap<XMLHttpRequest, number>();

export function startRunPage(): void {
  document.addEventListener("htmx:configRequest", tellParts);
  document.addEventListener("htmx:beforeSend", (event) => {
    if (isRunRegion(event.target)) sentChoice = choices;
    choiceOf.set(requestOf(event), choices);
  });
  document.addEventListener("htmx:beforeSwap", (event) => (arrivingChoice = choiceOf.get(requestOf(event)) ?? 0));
  document.addEventListener("htmx:oobBeforeSwap", spareWork);
  document.addEventListener("htmx:afterSettle", (event) => {
    if (isRunRegion(event.target)) finish(choiceOf.get(requestOf(event)) ?? 0);
  });
  document.addEventListener("click", onClick);
  document.addEventListener("keydown", onKeyDown);
  addEventListener("popstate", () => ask());
  markShown();
}

/** What is in the panel, as `nodes.nameOf` says it. */
export function shownStep(): string {
  return document.getElementById("run-step-head")?.dataset["shown"] ?? "";
}

/** Show a step (`train:2`) or a group (`group:train`) in the panel and in the address. */
export function openStep(name: string, isByKey = false): void {
  const address = new URL(location.href);
  for (const key of ["step", "index", "group", "tab", "attempt", "file"]) address.searchParams.delete(key);
  const [first = "", second = ""] = [name.slice(0, name.lastIndexOf(":")), name.slice(name.lastIndexOf(":") + 1)];
  if (first === "group") address.searchParams.set("group", second);
  else {
    address.searchParams.set("step", first);
    address.searchParams.set("index", second);
  }
  address.hash = "run-step";
  go(address.href, isByKey);
}

function go(address: string, isByKey: boolean): void {
  history.pushState(null, "", address);
  ask(isByKey);
}

let focusesPanel = false;
let cameFrom: Element | null = null;

function ask(isByKey = false): void {
  choices += 1;
  focusesPanel = isByKey;
  if (isByKey) cameFrom = document.activeElement;
  send();
}

function send(): void {
  document.getElementById("run-live")?.dispatchEvent(new CustomEvent("live"));
}

function onClick(event: MouseEvent): void {
  const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>("a[data-pick]") : null;
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  // A click without a pointer is Enter; inside the panel the focus stays where it is.
  go(link.href, event.detail === 0 && !link.closest("#run-step"));
}

function onKeyDown(event: KeyboardEvent): void {
  const panel = document.getElementById("run-step");
  if (event.key !== "Escape" || !panel?.contains(document.activeElement) || document.querySelector("dialog[open]"))
    return;
  const back = cameFrom?.isConnected ? cameFrom : cameFrom?.id ? document.getElementById(cameFrom.id) : null;
  if (back instanceof HTMLElement || back instanceof SVGElement) back.focus();
}

/** Ask for the page as its address is now, and say what is there already. */
function tellParts(event: Event): void {
  if (!isRunRegion(event.target)) return;
  const { detail } = event as CustomEvent<{ path: string; headers: Record<string, string> }>;
  const parts = [...document.querySelectorAll<HTMLElement>("[data-part]")];
  detail.path = location.pathname + location.search;
  detail.headers["X-Has-Parts"] = parts.map(({ dataset }) => `${dataset["part"]}.${dataset["version"]}`).join(",");
  detail.headers["X-Shows-Step"] = shownStep();
  detail.headers["X-Shows-Tab"] = document.getElementById("run-step-head")?.dataset["tab"] ?? "";
}

/** A part in which somebody works stays as it is; it is sent again with the next change. */
function spareWork(event: Event): void {
  const { detail } = event as CustomEvent<{ target: Element; shouldSwap: boolean }>;
  if (arrivingChoice <= shownChoice && detail.target.hasAttribute("data-part") && isAtWork(detail.target))
    detail.shouldSwap = false;
}

function finish(choice: number): void {
  document.dispatchEvent(new CustomEvent(PICTURE_CHANGED));
  markShown();
  shownChoice = Math.max(shownChoice, choice);
  if (sentChoice < choices) send();
  if (choice < choices || !focusesPanel) return;
  document.getElementById("run-step")?.focus();
  focusesPanel = false;
}

function requestOf(event: Event): XMLHttpRequest {
  return (event as CustomEvent<{ xhr: XMLHttpRequest }>).detail.xhr;
}

function markShown(): void {
  const shown = shownStep();
  for (const link of document.querySelectorAll<HTMLElement>("#run-list a[data-pick]")) {
    const isShown = link.dataset["pick"] === shown;
    if (isShown) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
    link.closest("tr")?.classList.toggle("selected", isShown);
  }
}

function isRunRegion(target: EventTarget | null): boolean {
  return target instanceof Element && target.id === "run-live";
}
