// Keys and small form habits: "/" focuses the search, a chosen option sends its form, a toast can be put away.

export function startKeys(): void {
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    event.preventDefault();
    document.querySelector<HTMLInputElement>("[data-search]")?.select();
  });
  document.addEventListener("change", (event) => {
    const field = event.target;
    if (field instanceof HTMLSelectElement && field.matches("[data-submits]")) field.form?.requestSubmit();
  });
  document.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("[data-dismisses]")) event.target.closest(".toast-note")?.remove();
  });
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");
}
