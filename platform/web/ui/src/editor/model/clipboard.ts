// Steps are copied as YAML, so that they can be pasted into any flow, a file or a message, and from there.

import { isMap, isSeq, parse, parseDocument } from "yaml";
import { read } from "./document.ts";
import type { Editor } from "./editor.ts";
import * as patches from "./patches.ts";
import { type Place, placesOf } from "./placing.ts";
import { freeName } from "./rules.ts";

const OFFSET_PX = 40;

// Returns the selected steps as they stand in the file, with their comments; empty when none is selected.
export function copySelected({ store }: Editor): string {
  const { document } = read(store.now.text);
  const steps = document.get("steps", true);
  if (!isSeq(steps)) return "";
  const copy = parseDocument("steps: []\n");
  const into = copy.get("steps", true);
  if (!isSeq(into)) return "";
  into.flow = false;
  into.items = steps.items.filter((step) => isMap(step) && store.state.selection.has(String(step.get("name"))));
  return into.items.length > 0 ? copy.toString({ lineWidth: 0, flowCollectionPadding: false }) : "";
}

// Adds the steps of a text under free names; arrows among them come along, and those from steps that are here.
export function paste(editor: Editor, text: string): boolean {
  const { store } = editor;
  const pasted = stepsIn(text);
  if (pasted.length === 0) return false;
  const names = new Map<string, string>();
  for (const step of pasted) {
    const wish = String(step["name"] || "step");
    names.set(wish, freeName(store.state.flow.steps, wish, names.values()));
  }
  const known = new Set(store.state.flow.steps.map(({ name }) => name));
  const steps = pasted.map((step) => {
    const after = Array.isArray(step["after"]) ? step["after"].map(String) : [];
    const kept = after.filter((name) => names.has(name) || known.has(name)).map((name) => names.get(name) ?? name);
    const { after: _, ...rest } = step;
    return { ...rest, name: names.get(String(step["name"] || "step")), ...(kept.length > 0 ? { after: kept } : {}) };
  });
  store.edit((document) => patches.addSteps(document, steps), { layout: beside(editor, names) });
  store.select(...names.values());
  store.say(`Pasted ${[...names.values()].join(", ")}.`);
  return true;
}

function stepsIn(text: string): patches.Raw[] {
  let data: unknown;
  try {
    data = parse(text);
  } catch {
    return [];
  }
  const list = Array.isArray(data) ? data : ((data as patches.Raw | null)?.["steps"] ?? [data]);
  const isStep = (item: unknown): item is patches.Raw => typeof item === "object" && item !== null && "command" in item;
  return Array.isArray(list) ? list.filter(isStep) : [];
}

function beside({ store }: Editor, names: ReadonlyMap<string, string>): Record<string, Place> {
  const { flow, history, arranged } = store.state;
  const layout: Record<string, Place> = { ...history.now.layout };
  const places = placesOf(flow, layout, arranged);
  for (const [before, now] of names) {
    const place = layout[before] ? places.get(before) : undefined;
    if (place) layout[now] = [place[0] + OFFSET_PX, place[1] + OFFSET_PX];
  }
  return layout;
}
