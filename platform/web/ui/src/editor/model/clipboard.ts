// Steps are copied as YAML, so that they can be pasted into any flow, a file or a message, and from there.

import { Document, isMap, isSeq, parse, parseDocument } from "yaml";
import { read } from "./document.ts";
import type { Editor } from "./editor.ts";
import * as patches from "./patches.ts";
import { type Place, placesOf } from "./placing.ts";
import { freeName } from "./rules.ts";

const OFFSET_PX = 40;

type NamedStep = patches.Raw & { name: string };

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
  for (const { name } of pasted) names.set(name, freeName(store.state.flow.steps, name, names.values()));
  const known = new Set([...store.state.flow.steps.map(({ name }) => name), ...names.values()]);
  const steps = renamed(pasted, names).map(({ after, ...rest }) => {
    const kept = Array.isArray(after) ? after.map(String).filter((name) => known.has(name)) : [];
    return kept.length > 0 ? { ...rest, after: kept } : rest;
  });
  store.edit((document) => patches.addSteps(document, steps), { layout: beside(editor, names) });
  store.select(...names.values());
  store.say(`Pasted ${[...names.values()].join(", ")}.`);
  return true;
}

// Conditions and commands that name a step follow its new name. The last one goes first: a new name may be an old one of
// a step after it, but of none before it.
function renamed(steps: readonly NamedStep[], names: ReadonlyMap<string, string>): patches.Raw[] {
  const document = new Document({ steps });
  for (const [before, now] of [...names].reverse()) {
    if (before !== now) patches.renameStep(document, before, now);
  }
  return (document.toJS() as { steps: patches.Raw[] }).steps;
}

function stepsIn(text: string): NamedStep[] {
  let data: unknown;
  try {
    data = parse(text);
  } catch {
    return [];
  }
  const list = Array.isArray(data) ? data : ((data as patches.Raw | null)?.["steps"] ?? [data]);
  const isStep = (item: unknown): item is patches.Raw => typeof item === "object" && item !== null && "command" in item;
  const steps = Array.isArray(list) ? list.filter(isStep) : [];
  return steps.map((step) => ({ ...step, name: String(step["name"] || "step") }));
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
