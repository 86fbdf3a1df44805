// Native dialogs: a button with data-opens="ID" opens one, data-closes closes it, a click on the backdrop does too.
// One that arrives with data-opens-now opens by itself. One that was left by its form is open again after "back": of one
// that arrived, what was typed is put into it once it has arrived again.

import htmx from "htmx.org";

type Field = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

// What the entry of the history keeps. `source` and `place`: where a dialog arrived from, and in which element.
interface Left {
  dialog?: string;
  source?: string;
  place?: string;
  typed?: (string | boolean)[];
}

interface Arrival {
  requestConfig: { verb: string };
  pathInfo: { requestPath: string };
}

const FIELDS = "input:not([type=hidden], [type=file], [type=password]), select, textarea";

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
    if (typed) fieldsOf(dialog).forEach((field, index) => write(field, typed?.[index]));
    typed = undefined;
  });
  document.addEventListener("submit", (event) => {
    const dialog = (event.target as Element).closest<HTMLDialogElement>("dialog[data-opens-now]");
    if (dialog) note({ typed: fieldsOf(dialog).map(read) });
  });
  document.addEventListener("close", () => note({ dialog: "" }), true);
  if (!left?.dialog) return;
  if (left.source) void htmx.ajax("get", left.source, `#${left.place}`);
  else open(find(left.dialog));
}

// Closed, a dialog gives the focus to what had it before: of one that took the place of another, the other's opener.
function open(dialog: HTMLDialogElement | null): void {
  if (!dialog) return;
  if (document.activeElement === document.body && opener instanceof HTMLElement) opener.focus();
  opener = document.activeElement;
  dialog.showModal();
  note({ dialog: dialog.id, source: "", typed: [] });
}

// The entry of the history keeps which dialog is open, as it keeps what was typed.
function note(left: Left): void {
  history.replaceState({ ...(history.state as object | null), ...left }, "");
}

function fieldsOf(dialog: HTMLDialogElement): Field[] {
  return [...dialog.querySelectorAll<Field>(FIELDS)];
}

function isTicked(field: Field): field is HTMLInputElement {
  return field.type === "checkbox" || field.type === "radio";
}

function read(field: Field): string | boolean {
  return isTicked(field) ? field.checked : field.value;
}

function write(field: Field, value: string | boolean | undefined): void {
  if (typeof value === "string") field.value = value;
  else if (value !== undefined && isTicked(field)) field.checked = value;
}

function find(id: string | undefined): HTMLDialogElement | null {
  const dialog = id ? document.getElementById(id) : null;
  return dialog instanceof HTMLDialogElement ? dialog : null;
}
