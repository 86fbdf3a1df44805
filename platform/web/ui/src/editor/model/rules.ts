// Which arrows may be drawn, and in words why not.

import { type Flow, type Step } from "./flow.ts";

// Nodes of the canvas: a step by its name, a dataset by its reference.
export const DATASET = "data:";

export function isDataset(node: string): boolean {
  return node.startsWith(DATASET);
}

// Returns why no arrow may lead from `source` to `target`; null: it may.
export function whyNot(flow: Flow, source: string, target: string): string | null {
  if (isDataset(target)) return "A dataset has no inputs: steps read it, and write to $NEARLINE_OUTPUT.";
  const step = flow.steps.find(({ name }) => name === target);
  if (!step) return `There is no step '${target}'.`;
  if (isDataset(source)) {
    const reference = source.slice(DATASET.length);
    return step.data.some(({ dataset }) => dataset === reference) ? `'${target}' reads ${reference} already.` : null;
  }
  if (source === target) return "A step cannot wait for itself.";
  if (step.after.includes(source)) return `'${target}' waits for '${source}' already.`;
  const circle = wayFrom(flow, target, source);
  return circle ? `These steps would wait for each other: ${[source, ...circle].join(" -> ")}.` : null;
}

// The steps on a way along arrows, both ends included; null when there is none.
function wayFrom(flow: Flow, start: string, end: string): string[] | null {
  const children = new Map<string, string[]>();
  for (const step of flow.steps)
    for (const parent of step.after) children.set(parent, [...(children.get(parent) ?? []), step.name]);
  const cameFrom = new Map<string, string>([[start, ""]]);
  const open = [start];
  for (const here of open) {
    if (here === end) {
      const way = [here];
      for (let at = cameFrom.get(here); at; at = cameFrom.get(at)) way.unshift(at);
      return way;
    }
    for (const child of children.get(here) ?? []) {
      if (!cameFrom.has(child)) {
        cameFrom.set(child, here);
        open.push(child);
      }
    }
  }
  return null;
}

// A name that is free, made from a wish: `train`, `train-2`, `train-3`.
export function freeName(steps: readonly Step[], wish: string, taken: Iterable<string> = []): string {
  const known = new Set([...steps.map(({ name }) => name), ...taken]);
  const stem = wish.replace(/-\d+$/, "");
  let name = wish;
  for (let number = 2; known.has(name); number++) name = `${stem}-${number}`;
  return name;
}
