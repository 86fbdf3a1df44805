// What is shown once, such as a new token, stands on the page that answered a form. Reloading that must not send the form
// again: it leads to the page with the address that the element names.

export function startShownOnce(): void {
  const shown = document.querySelector<HTMLElement>("[data-shown-once]");
  if (shown) history.replaceState(null, "", shown.dataset.shownOnce);
}
