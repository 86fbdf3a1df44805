// The state of the editor. The text is the truth; the flow that canvas and panel show is read from it.

import { edit, type Fault, read } from "./document.ts";
import { begin, type History, type Layout, type Moment, push, redo, undo } from "./history.ts";
import { EMPTY, type Flow, readFlow } from "./flow.ts";
import type * as patches from "./patches.ts";

export type Problem = {
  line: number | null;
  column: number | null;
  path: string;
  code: string;
  message: string;
  is_note: boolean;
  step?: string;
};

export type State = {
  history: History;
  flow: Flow; // what the file says; while it cannot be read, what it said last
  fault: Fault | null; // why it cannot be read
  arranged: Layout; // where the server put the nodes
  selection: ReadonlySet<string>; // nodes and arrows
  problems: readonly Problem[];
  isChecked: boolean; // the problems are those of this text
  said: { words: string; at: number } | null; // the last thing to tell: a refusal, what was done
  view: "canvas" | "split" | "yaml";
  isList: boolean;
  fresh: string; // the step that was just added: its panel begins with its name
  linked: readonly string[]; // the ends of the arrow that was just drawn
  line: { number: number; at: number } | null; // the line that the text is to show
};

export class EditorStore {
  state: State;
  #listeners = new Set<() => void>();

  constructor(moment: Moment, view: State["view"]) {
    this.state = {
      history: begin(moment),
      flow: EMPTY,
      fault: null,
      arranged: {},
      selection: new Set(),
      problems: [],
      isChecked: false,
      said: null,
      view,
      isList: false,
      fresh: "",
      linked: [],
      line: null,
    };
    this.#show(this.state.history);
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  get now(): Moment {
    return this.state.history.now;
  }

  // Changes the document. `layout` comes along where nodes are added, moved or named anew.
  edit(
    change: (document: Parameters<typeof patches.setIn>[0]) => void,
    options: { burst?: string; layout?: Layout } = {},
  ): void {
    if (this.state.fault) {
      this.say(`The YAML cannot be read at line ${this.state.fault.line}; correct it there first.`);
      return;
    }
    this.#push({ text: edit(this.now.text, change), layout: options.layout ?? this.now.layout }, options.burst ?? "");
  }

  setText(text: string, burst = "typing"): void {
    this.#push({ text, layout: this.now.layout }, burst);
  }

  setLayout(layout: Layout, burst = ""): void {
    this.#push({ text: this.now.text, layout }, burst);
  }

  restore(moment: Moment): void {
    this.#push(moment, "");
  }

  undo(): void {
    this.set({ said: null }); // what a deed told is no longer so
    this.#show(undo(this.state.history));
  }

  redo(): void {
    this.#show(redo(this.state.history));
  }

  select(...ids: string[]): void {
    const isSame = ids.length === this.state.selection.size && ids.every((id) => this.state.selection.has(id));
    if (!isSame) this.set({ selection: new Set(ids) });
  }

  say(words: string): void {
    this.set({ said: { words, at: Date.now() } });
  }

  set(change: Partial<State>): void {
    this.state = { ...this.state, ...change };
    for (const listener of this.#listeners) listener();
  }

  #push(moment: Moment, burst: string): void {
    const names = this.state.flow.steps.map(({ name }) => name);
    const history = push(this.state.history, moment, burst, Date.now());
    if (history === this.state.history) return;
    this.#show(history);
    const renamed = followNames(names, this.state.flow, this.now.layout);
    if (renamed) this.set({ history: { ...this.state.history, now: { ...this.now, layout: renamed } } });
  }

  #show(history: History): void {
    const isSameText = history.now.text === this.state.history.now.text && this.state.flow !== EMPTY;
    if (isSameText) {
      this.set({ history });
      return;
    }
    const found = read(history.now.text);
    const flow = found.fault ? this.state.flow : readFlow(found.document);
    const known = new Set(flow.steps.map(({ name }) => name));
    const selection = new Set([...this.state.selection].filter((id) => known.has(id) || id.startsWith("data:")));
    const isSame = selection.size === this.state.selection.size;
    this.set({
      history,
      flow,
      fault: found.fault,
      isChecked: false,
      selection: isSame ? this.state.selection : selection,
    });
  }
}

// A name that changed in the text keeps its node's place: the step stands where one stood that is gone.
function followNames(before: readonly string[], { steps }: Flow, layout: Layout): Layout | null {
  if (steps.length !== before.length) return null;
  const now = new Set(steps.map(({ name }) => name));
  const moved = before.flatMap((name, index) => {
    const other = steps[index]?.name ?? "";
    return name !== other && layout[name] && !now.has(name) && !before.includes(other) ? [[name, other] as const] : [];
  });
  if (moved.length === 0) return null;
  const places: Record<string, readonly [number, number]> = { ...layout };
  for (const [name, other] of moved) {
    const place = places[name];
    delete places[name];
    if (place) places[other] = place;
  }
  return places;
}
