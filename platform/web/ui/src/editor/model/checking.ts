// The server checks the text at every pause, so that its problems are those that would hinder keeping it.

import { ApiError, call } from "./api.ts";
import type { EditorStore, Problem } from "./store.ts";

const PAUSE_MS = 350;
const AGAIN_MS = 5000;

export function keepChecked(store: EditorStore, project: string): () => void {
  let timer = 0;
  let checked: string | null = null;
  let running: AbortController | null = null;

  const check = async () => {
    const text = store.now.text;
    running?.abort();
    running = new AbortController();
    try {
      const { problems } = await call<{ problems: Problem[] }>(
        "POST",
        "/flows/validate",
        { project, text },
        running.signal,
      );
      checked = text;
      if (store.now.text === text) store.set({ problems, isChecked: true });
    } catch (error) {
      if (error instanceof ApiError && error.isPassing) timer = window.setTimeout(check, AGAIN_MS);
    }
  };
  const look = () => {
    if (store.now.text === checked) {
      if (!store.state.isChecked) store.set({ isChecked: true });
      return;
    }
    if (asked === store.now.text) return;
    asked = store.now.text;
    clearTimeout(timer);
    timer = window.setTimeout(check, PAUSE_MS);
  };
  let asked = store.now.text;
  void check();
  const stop = store.subscribe(look);
  return () => {
    stop();
    clearTimeout(timer);
    running?.abort();
  };
}
