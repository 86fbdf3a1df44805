// Native dialogs: a button with data-opens="ID" opens one, data-closes closes it, a click on the backdrop does too.
// One that arrives with data-opens-now opens by itself. One that was left by its form is open again after "back".

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
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target instanceof Element) open(event.target.querySelector<HTMLDialogElement>("dialog[data-opens-now]"));
  });
  document.addEventListener("close", () => note(""), true);
  const [navigation] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  const state = history.state as { dialog?: string } | null;
  if (navigation?.type === "back_forward" && state?.dialog) open(find(state.dialog));
}

// Closed, a dialog gives the focus to what had it before: of one that took the place of another, the other's opener.
function open(dialog: HTMLDialogElement | null): void {
  if (!dialog) return;
  if (document.activeElement === document.body && opener instanceof HTMLElement) opener.focus();
  opener = document.activeElement;
  dialog.showModal();
  note(dialog.id);
}

// The entry of the history keeps which dialog is open, as it keeps what was typed.
function note(dialog: string): void {
  history.replaceState({ ...(history.state as object | null), dialog }, "");
}

function find(id: string | undefined): HTMLDialogElement | null {
  const dialog = id ? document.getElementById(id) : null;
  return dialog instanceof HTMLDialogElement ? dialog : null;
}
