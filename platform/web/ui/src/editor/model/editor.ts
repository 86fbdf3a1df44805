// What one editor is made of; every part of the page gets it from here.

import { createContext, useContext, useSyncExternalStore } from "react";
import type { Drafting } from "./drafting.ts";
import type { Layout } from "./history.ts";
import type { EditorStore, State } from "./store.ts";

// What the server sends when the page opens.
export type Choice = { name: string; detail: string };

export type Draft = {
  text: string;
  layout: Layout;
  base_version: number | null;
  example: string;
  revision: number;
  updated_at: string;
};

export type Config = {
  project: string;
  key: string; // the flow's name, or one that starts with '~' for a flow that does not exist yet
  user: string;
  version: { number: number | null; text: string; layout: Layout }; // what the writing begins from; a new flow has no number
  draft: Draft | null;
  example: string;
  view: "canvas" | "split";
  may_write: boolean;
  templates: Choice[];
  resources: Choice[];
  pools: Choice[];
  default_template: string;
  datasets: Choice[];
  secrets: string[];
};

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
