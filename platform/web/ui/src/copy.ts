// Buttons that put a text on the clipboard and say so for a moment.

const SHOWN_MS = 1500;

export function startCopyButtons(): void {
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-copies]") : null;
    if (button) void copy(button, button.dataset["copies"] ?? "");
  });
}

async function copy(button: HTMLElement, text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without permission, or on plain http beyond the loopback interface: select it, so that the keyboard can copy.
    const code = button.parentElement?.querySelector("code");
    if (code) getSelection()?.selectAllChildren(code);
    return;
  }
  const use = button.querySelector("use");
  const before = use?.getAttribute("href");
  if (!use || !before || before.endsWith("#check")) return;
  use.setAttribute("href", before.replace(/#.*/, "#check"));
  setTimeout(() => use.setAttribute("href", before), SHOWN_MS);
}
