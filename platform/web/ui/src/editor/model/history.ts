// Undo and redo: the history of what the file said and where its nodes stood.

export type Moment = { text: string; layout: Layout };
export type Layout = Readonly<Record<string, readonly [number, number]>>;
export type History = { past: readonly Moment[]; now: Moment; future: readonly Moment[]; burst: string; at: number };

const MOST = 300;
const BURST_MS = 1200;

export function begin(now: Moment): History {
  return { past: [], now, future: [], burst: "", at: 0 };
}

// Edits of one burst (typing into one field) are one step back. An empty burst always stands for itself.
export function push(history: History, now: Moment, burst: string, at: number): History {
  if (now.text === history.now.text && now.layout === history.now.layout) return history;
  const goesOn = burst !== "" && burst === history.burst && at - history.at < BURST_MS && history.past.length > 0;
  const past = goesOn ? history.past : [...history.past, history.now].slice(-MOST);
  return { past, now, future: [], burst, at };
}

export function undo(history: History): History {
  const before = history.past.at(-1);
  if (!before) return history;
  return { past: history.past.slice(0, -1), now: before, future: [history.now, ...history.future], burst: "", at: 0 };
}

export function redo(history: History): History {
  const [next, ...future] = history.future;
  if (!next) return history;
  return { past: [...history.past, history.now], now: next, future, burst: "", at: 0 };
}
