// Which theme the page has, for what draws itself (React Flow, CodeMirror).

import { useSyncExternalStore } from "react";

export function useTheme(): "light" | "dark" {
  return useSyncExternalStore(watch, () => (document.documentElement.dataset["bsTheme"] === "dark" ? "dark" : "light"));
}

function watch(onChange: () => void): () => void {
  const watcher = new MutationObserver(onChange);
  watcher.observe(document.documentElement, { attributeFilter: ["data-bs-theme"] });
  return () => watcher.disconnect();
}
