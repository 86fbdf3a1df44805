// Native dialogs: a button with data-opens="ID" opens one, data-closes closes it, a click on the backdrop does too.
// One that arrives with data-opens-now opens by itself. One that was left by its form is open again after "back": of one
// that arrived, what was typed is put into it once it has arrived again.

import htmx from "htmx.org";
import { readFields, type Typed, writeFields } from "./fields.ts";

// What the entry of the history keeps. `source` and `place`: where a dialog arrived from, and in which element.
interface Left {
  dialog?: string;
  source?: string;
  place?: string;
  typed?: Typed[];
}

interface Arrival {
  requestConfig: { verb: string };
  pathInfo: { requestPath: string };
}

let opener: Element | null = null;

export function startDialogs(): void {
  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    const button = target?.closest<HTMLElement>("[data-opens]");
    if (button) open(find(button.dataset["opens"]));
    if (target?.closest("[data-goes-back]")) history.back();
    if (target?.closest("[data-closes]")) target.closest("dialog")?.close();
    if (target instanceof HTMLDialogElement) target.close();
  });
  const [navigation] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  const left = navigation?.type === "back_forward" ? (history.state as Left | null) : null;
  let typed = left?.typed;
  document.addEventListener("htmx:afterSwap", (event) => {
    const place = event.target as Element;
    const dialog = place.querySelector<HTMLDialogElement>("dialog[data-opens-now]");
    if (!dialog) return;
    open(dialog);
    const { requestConfig, pathInfo } = (event as CustomEvent<Arrival>).detail;
    if (requestConfig.verb === "get") note({ source: pathInfo.requestPath, place: place.id });
    if (typed) writeFields(dialog, typed);
    typed = undefined;
  });
  document.addEventListener("submit", (event) => {
    const dialog = (event.target as Element).closest<HTMLDialogElement>("dialog[data-opens-now]");
    if (dialog) note({ typed: readFields(dialog) });
  });
  document.addEventListener("close", () => note({ dialog: "" }), true);
  if (left?.source) void htmx.ajax("get", left.source, `#${left.place}`);
  else open(left?.dialog ? find(left.dialog) : document.querySelector("dialog[data-opens-now]"));
}

// Closed, a dialog gives the focus to what had it before: of one that took the place of another, the other's opener.
function open(dialog: HTMLDialogElement | null): void {
  if (!dialog) return;
  if (document.activeElement === document.body && opener instanceof HTMLElement) opener.focus();
  opener = document.activeElement;
  dialog.showModal();
  dialog.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  note({ dialog: dialog.id, source: "", typed: [] });
}

// The entry of the history keeps which dialog is open, as it keeps what was typed.
function note(left: Left): void {
  history.replaceState({ ...(history.state as object | null), ...left }, "");
}

function find(id: string | undefined): HTMLDialogElement | null {
  const dialog = id ? document.getElementById(id) : null;
  return dialog instanceof HTMLDialogElement ? dialog : null;
}
