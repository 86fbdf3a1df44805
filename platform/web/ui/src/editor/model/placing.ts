// Where the nodes stand: where somebody put them, else where the server lays them out, else beside what they follow.

import { NODE_HEIGHT, NODE_WIDTH } from "../../graph/drawing.ts";
import { call } from "./api.ts";
import type { Layout } from "./history.ts";
import { datasetsOf, type Flow } from "./flow.ts";
import { DATASET, isDataset } from "./rules.ts";
import type { EditorStore } from "./store.ts";

export type Place = readonly [number, number];

const COLUMN = NODE_WIDTH + 56;
const ROW = NODE_HEIGHT + 20;
const START: Place = [28, 28];

// The nodes and the parents of each. Datasets that no step reads live in the layout only.
export function parentsOf(flow: Flow, layout: Layout): Record<string, string[]> {
  const parents: Record<string, string[]> = {};
  for (const dataset of datasetsOf(flow)) parents[DATASET + dataset] = [];
  for (const id of Object.keys(layout)) if (isDataset(id)) parents[id] ??= [];
  for (const step of flow.steps) {
    if (step.name) parents[step.name] = [...step.after, ...step.data.map(({ dataset }) => DATASET + dataset)];
  }
  return parents;
}

// Nobody has moved a node: all follow the server's layout.
export function isAutomatic(flow: Flow, layout: Layout): boolean {
  const used = new Set([
    ...flow.steps.map(({ name }) => name),
    ...datasetsOf(flow).map((dataset) => DATASET + dataset),
  ]);
  return !Object.keys(layout).some((id) => used.has(id));
}

export function placesOf(flow: Flow, layout: Layout, arranged: Layout): Map<string, Place> {
  const parents = parentsOf(flow, layout);
  const known = isAutomatic(flow, layout) ? { ...layout, ...arranged } : layout;
  const places = new Map<string, Place>();
  const taken = new Set<string>();
  const put = (id: string, place: Place) => {
    places.set(id, place);
    taken.add(cellOf(place));
  };
  for (const id of Object.keys(parents)) if (known[id]) put(id, known[id]);
  for (const [id, names] of Object.entries(parents)) {
    if (places.has(id)) continue;
    const before = names.map((name) => places.get(name)).filter((place) => place !== undefined);
    const right = before.toSorted((one, other) => other[0] - one[0])[0];
    put(id, freePlace(taken, right ? [right[0] + COLUMN, right[1]] : START));
  }
  return places;
}

// What all nodes cover.
export function boundsOf(places: Iterable<Place>): { x: number; y: number; width: number; height: number } {
  const all = [...places];
  const x = Math.min(...all.map(([left]) => left));
  const y = Math.min(...all.map(([, top]) => top));
  const right = Math.max(...all.map(([left]) => left + NODE_WIDTH));
  const bottom = Math.max(...all.map(([, top]) => top + NODE_HEIGHT));
  return all.length > 0 ? { x, y, width: right - x, height: bottom - y } : { x: 0, y: 0, width: 0, height: 0 };
}

export function freePlace(taken: ReadonlySet<string>, wish: Place): Place {
  let [x, y] = wish;
  while (taken.has(cellOf([x, y]))) y += ROW;
  return [x, y];
}

export function cellOf([x, y]: Place): string {
  return `${Math.round(x / COLUMN)} ${Math.round(y / ROW)}`;
}

// Asks the server for places whenever the graph changes that nobody has arranged by hand.
export function keepArranged(store: EditorStore): () => void {
  let asked = "";
  const look = () => {
    const { flow, history } = store.state;
    if (!isAutomatic(flow, history.now.layout)) return;
    const parents = parentsOf(flow, history.now.layout);
    const graph = JSON.stringify(parents);
    if (graph === asked) return;
    asked = graph;
    // Without an answer the nodes stay beside what they follow; the next change asks again.
    void arrange(parents).then(
      (arranged) => graph === asked && store.set({ arranged }),
      () => undefined,
    );
  };
  look();
  return store.subscribe(look);
}

// Puts every node where the server would: one request.
export async function tidyUp(store: EditorStore): Promise<void> {
  const { flow, history } = store.state;
  const parents = parentsOf(flow, history.now.layout);
  const arranged = await arrange(parents);
  const used = new Set(datasetsOf(flow).map((dataset) => DATASET + dataset));
  const loose = Object.entries(arranged).filter(([id]) => isDataset(id) && !used.has(id));
  store.set({ arranged });
  store.setLayout(Object.fromEntries(loose));
}

async function arrange(parents: Record<string, string[]>): Promise<Layout> {
  return (await call<{ places: Layout }>("POST", "/flows/layout", { parents })).places;
}
