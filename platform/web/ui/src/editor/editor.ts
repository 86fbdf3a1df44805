// What one editor is made of; every part of the page gets it from here.

import { createContext, useContext, useSyncExternalStore } from "react";
import type { Config } from "./config.ts";
import type { Drafting } from "./drafting.ts";
import type { EditorStore, State } from "./store.ts";

export type Editor = { config: Config; store: EditorStore; drafting: Drafting };

export const EditorContext = createContext<Editor | null>(null);

export function useEditor(): Editor {
  const editor = useContext(EditorContext);
  if (!editor) throw new Error("This belongs into an editor.");
  return editor;
}

// Draws anew when what `choose` returns is another thing.
export function useChosen<T>(choose: (state: State) => T): T {
  const { store } = useEditor();
  return useSyncExternalStore(store.subscribe, () => choose(store.state));
}
