// A region that asks for itself again waits while somebody works in it: what is read, chosen or typed never moves.

// The options of a log are set from the beginning.
const AT_WORK = "input:checked:not(log-view *), details[open], dialog[open], :focus-visible";

export function startPolling(): void {
  document.addEventListener("htmx:beforeRequest", (event) => {
    const region = event.target;
    if (!(region instanceof Element) || !region.getAttribute("hx-trigger")?.startsWith("every")) return;
    if (document.hidden || isAtWork(region)) event.preventDefault();
  });
}

export function isAtWork(region: Element): boolean {
  const selection = getSelection();
  const isSelectedIn = selection !== null && !selection.isCollapsed && selection.containsNode(region, true);
  return isSelectedIn || region.querySelector(AT_WORK) !== null;
}
