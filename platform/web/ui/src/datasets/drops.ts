// Files that are dragged from a file manager: the page shows that it takes them, and hands on what was dropped.

import { takeEntries } from "./traversal.ts";

type Drops = { mayTake: () => boolean; onDrop: (entries: FileSystemEntry[]) => void; signal: AbortSignal };

export function listenForDrops({ mayTake, onDrop, signal }: Drops): void {
  let depth = 0;
  const listen = (type: "dragenter" | "dragover" | "dragleave" | "drop", handle: (event: DragEvent) => void) =>
    document.addEventListener(
      type,
      (event) => {
        if (!event.dataTransfer?.types.includes("Files") || !mayTake()) return;
        handle(event);
        document.body.classList.toggle("drop-here", depth > 0);
      },
      { signal },
    );
  // Entering a child comes before leaving its parent, so the page is left when as many were left as entered.
  listen("dragenter", () => (depth += 1));
  listen("dragleave", () => (depth = Math.max(0, depth - 1)));
  listen("dragover", (event) => event.preventDefault());
  listen("drop", (event) => {
    event.preventDefault();
    depth = 0;
    if (event.dataTransfer) onDrop(takeEntries(event.dataTransfer.items));
  });
}
