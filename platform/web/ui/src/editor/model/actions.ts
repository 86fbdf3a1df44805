// What people do on the canvas, in the list and by keys; each is one step back for undo.

import type { Document } from "yaml";
import type { Editor } from "./editor.ts";
import type { Layout } from "./history.ts";
import { datasetsOf, type Step } from "./flow.ts";
import * as patches from "./patches.ts";
import { cellOf, freePlace, isAutomatic, type Place, placesOf } from "./placing.ts";
import { DATASET, freeName, isDataset, whyNot } from "./rules.ts";

const NEW_COMMAND = 'echo "hello" > "$NEARLINE_OUTPUT/hello.txt"';

// Adds a step. With one node selected it follows that one; dropped or clicked, it stands at `at`.
export function addCommand(editor: Editor, at?: Place): void {
  addStep(editor, { name: "step", command: NEW_COMMAND }, at);
}

export function addStep(editor: Editor, step: patches.Raw, at?: Place): void {
  const { store } = editor;
  const name = freeName(store.state.flow.steps, String(step["name"]));
  const parent = at ? null : onlySelected(editor);
  const { after: _, ...rest } = step;
  store.edit(
    (document) => {
      patches.addSteps(document, [{ ...rest, name }]);
      if (parent) connectIn(document, parent, name);
    },
    { layout: withPlace(editor, name, at, parent) },
  );
  store.set({ fresh: name });
  store.select(name);
}

// Adds a dataset that no step reads yet. It stands in the layout until one does.
export function addDataset(editor: Editor, at?: Place): void {
  const { store, config } = editor;
  const { flow, history } = store.state;
  const used = new Set([...datasetsOf(flow), ...Object.keys(history.now.layout).filter(isDataset).map(referenceOf)]);
  const unused = config.datasets.find(({ name }) => !used.has(name))?.name;
  const reference = unused ?? freeReference(used, config.project);
  const id = DATASET + reference;
  if (!used.has(reference)) {
    const places = placesOf(flow, history.now.layout, store.state.arranged);
    const free = freePlace(new Set([...places.values()].map(cellOf)), [28, 28]);
    store.setLayout(at ? { ...Object.fromEntries(places), [id]: at } : { ...history.now.layout, [id]: free });
  }
  store.select(id);
}

export function referenceOf(id: string): string {
  return id.slice(DATASET.length);
}

// Draws an arrow, or tells why there can be none. Returns whether it did.
export function connect(editor: Editor, source: string, target: string): boolean {
  const { store } = editor;
  const reason = whyNot(store.state.flow, source, target);
  if (reason) store.say(reason);
  else {
    store.set({ linked: [source, target] });
    store.edit((document) => connectIn(document, source, target), { layout: keepLoose(editor, source) });
  }
  return reason === null;
}

export function disconnect(editor: Editor, source: string, target: string): void {
  editor.store.edit((document) => disconnectIn(document, source, target));
}

// Removes the selected nodes and arrows.
export function removeSelected(editor: Editor): void {
  const { store } = editor;
  const ids = [...store.state.selection];
  if (ids.length > 0) remove(editor, ids);
}

export function remove(editor: Editor, ids: readonly string[]): void {
  const { store } = editor;
  const nodes = new Set(ids.filter((id) => !id.includes(">")));
  const steps = new Set([...nodes].filter((id) => !isDataset(id)));
  const layout = Object.fromEntries(Object.entries(store.now.layout).filter(([id]) => !nodes.has(id)));
  const isOnlyLoose =
    steps.size === 0 && ids.every((id) => isDataset(id) && !datasetsOf(store.state.flow).includes(referenceOf(id)));
  if (isOnlyLoose) store.setLayout(layout);
  else {
    store.edit(
      (document) => {
        for (const id of ids) {
          const [source, target] = id.split(">");
          if (source !== undefined && target !== undefined) disconnectIn(document, source, target);
          else if (isDataset(id)) patches.removeData(document, referenceOf(id));
        }
        if (steps.size > 0) patches.removeSteps(document, steps);
      },
      { layout },
    );
  }
  store.select();
  store.say(`Removed ${ids.map(wordFor).join(", ")}. Undo restores it.`);
}

export function rename(editor: Editor, step: Step, wish: string): void {
  const { store } = editor;
  const name = wish.trim();
  if (name === step.name) return;
  if (store.state.flow.steps.some((other) => other.name === name)) {
    store.say(`Another step is called '${name}'.`);
    return;
  }
  const { [step.name]: place, ...rest } = store.now.layout;
  const isSelected = store.state.selection.has(step.name);
  // A step without a name cannot be found by one: it is found by where it stands.
  const change = (document: Document) =>
    step.name
      ? patches.renameStep(document, step.name, name)
      : patches.setIn(document, ["steps", step.index, "name"], name);
  store.edit(change, { layout: place ? { ...rest, [name]: place } : store.now.layout });
  if (isSelected) store.select(name);
}

export function replaceDataset(editor: Editor, before: string, wish: string): void {
  const { store } = editor;
  const now = wish.trim();
  if (!now || now === before) return;
  const { [DATASET + before]: place, ...rest } = store.now.layout;
  const layout = place ? { ...rest, [DATASET + now]: place } : rest;
  if (datasetsOf(store.state.flow).includes(before))
    store.edit((document) => patches.replaceDataset(document, before, now), { layout });
  else store.setLayout(layout);
  store.select(DATASET + now);
}

// Puts nodes where somebody dragged them. From then on all stand where they stand.
export function move(editor: Editor, moved: ReadonlyMap<string, Place>): void {
  const { flow, history, arranged } = editor.store.state;
  const places = placesOf(flow, history.now.layout, arranged);
  for (const [id, [x, y]] of moved) places.set(id, [Math.round(x), Math.round(y)]);
  editor.store.setLayout(Object.fromEntries(places), "move");
}

export function selectAll(editor: Editor): void {
  const { flow, history, arranged } = editor.store.state;
  editor.store.select(...placesOf(flow, history.now.layout, arranged).keys());
}

function connectIn(document: Document, source: string, target: string): void {
  if (isDataset(source)) patches.addData(document, referenceOf(source), target);
  else patches.connect(document, source, target);
}

function disconnectIn(document: Document, source: string, target: string): void {
  if (isDataset(source)) patches.removeData(document, referenceOf(source), target);
  else patches.disconnect(document, source, target);
}

function onlySelected({ store }: Editor): string | null {
  const [only, ...others] = [...store.state.selection].filter((id) => !id.includes(">"));
  return only !== undefined && others.length === 0 ? only : null;
}

// In a layout that is made by hand the new node gets its place too; in the server's the server gives it one.
function withPlace({ store }: Editor, name: string, at: Place | undefined, parent: string | null): Layout {
  const { flow, history, arranged } = store.state;
  const { layout } = history.now;
  if (!at && isAutomatic(flow, layout)) return withoutRead(layout, parent);
  const places = placesOf(flow, layout, arranged);
  const beside = parent ? places.get(parent) : undefined;
  const right = Math.max(28, ...[...places.values()].map(([x]) => x));
  const wish: Place = at ?? (beside ? [beside[0] + 264, beside[1]] : [right, 28]);
  const taken = new Set([...places.values()].map(cellOf));
  return { ...Object.fromEntries(places), [name]: at ?? freePlace(taken, wish) };
}

// A dataset that is read from now on is laid out with the rest, unless somebody arranged that by hand.
function keepLoose({ store }: Editor, source: string): Layout {
  const { flow, history } = store.state;
  return isAutomatic(flow, history.now.layout) ? withoutRead(history.now.layout, source) : history.now.layout;
}

function withoutRead(layout: Layout, id: string | null): Layout {
  return Object.fromEntries(Object.entries(layout).filter(([key]) => key !== id));
}

function freeReference(used: ReadonlySet<string>, project: string): string {
  let name = `${project}/my-dataset`;
  for (let number = 2; used.has(name); number++) name = `${project}/my-dataset-${number}`;
  return name;
}

function wordFor(id: string): string {
  const [source = "", target] = id.split(">");
  if (target !== undefined) return `the arrow from ${wordFor(source)} to ${target}`;
  return isDataset(id) ? referenceOf(id) : id;
}
