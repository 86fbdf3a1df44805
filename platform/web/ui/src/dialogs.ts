// Native dialogs: a button with data-opens="ID" opens one, data-closes closes it, a click on the backdrop does too.
// One that arrives with data-opens-now opens by itself.

export function startDialogs(): void {
  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    const opener = target?.closest<HTMLElement>("[data-opens]");
    if (opener) find(opener.dataset["opens"])?.showModal();
    if (target?.closest("[data-closes]")) target.closest("dialog")?.close();
    if (target instanceof HTMLDialogElement) target.close();
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target instanceof Element)
      event.target.querySelector<HTMLDialogElement>("dialog[data-opens-now]")?.showModal();
  });
}

function find(id: string | undefined): HTMLDialogElement | null {
  const dialog = id ? document.getElementById(id) : null;
  return dialog instanceof HTMLDialogElement ? dialog : null;
}
