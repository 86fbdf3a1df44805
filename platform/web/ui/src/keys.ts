// Keys and small form habits: "/" and Ctrl-K (on a Mac Command-K) focus the search, a chosen option sends its form, a toast can be put away.

const IS_MAC = navigator.platform.startsWith("Mac");

export function startKeys(): void {
  const hint = document.querySelector<HTMLElement>("[data-search-key]");
  if (hint && IS_MAC) hint.textContent = "\u2318K";
  document.addEventListener("keydown", (event) => {
    if (!opensSearch(event)) return;
    event.preventDefault();
    document.querySelector<HTMLInputElement>("[data-search]")?.select();
  });
  document.addEventListener("change", (event) => {
    const field = event.target;
    if (field instanceof HTMLSelectElement && field.matches("[data-submits]")) field.form?.requestSubmit();
  });
  document.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("[data-dismisses]"))
      event.target.closest(".toast-note")?.remove();
  });
}

function opensSearch(event: KeyboardEvent): boolean {
  const { key, altKey, ctrlKey, metaKey, shiftKey, target } = event;
  if (key.toLowerCase() === "k") return (IS_MAC ? metaKey && !ctrlKey : ctrlKey && !metaKey) && !altKey && !shiftKey;
  return key === "/" && !ctrlKey && !metaKey && !altKey && !isTyping(target);
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");
}
