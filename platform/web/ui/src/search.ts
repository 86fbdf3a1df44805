// The list below the search box: the arrow keys walk it from the box down and back, Escape or leaving it puts it away.

export function startSearch(): void {
  const form = document.querySelector<HTMLElement>("form.search");
  const box = form?.querySelector<HTMLInputElement>("[data-search]");
  const list = form?.querySelector<HTMLElement>("#found");
  if (!form || !box || !list) return;
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      list.replaceChildren();
      box.focus();
    }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const stops: HTMLElement[] = [box, ...list.querySelectorAll("a")];
    const here = stops.indexOf(document.activeElement as HTMLElement);
    const there = stops[here + (event.key === "ArrowDown" ? 1 : -1)];
    if (here < 0 || !there) return;
    event.preventDefault();
    there.focus();
  });
  form.addEventListener("focusout", (event) => {
    if (!(event.relatedTarget instanceof Node && form.contains(event.relatedTarget))) list.replaceChildren();
  });
  box.addEventListener("input", () => {
    if (!box.value.trim()) list.replaceChildren();
  });
}
