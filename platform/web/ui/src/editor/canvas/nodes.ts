// From the state to what React Flow draws. What did not change keeps its object, so that only the rest is drawn anew.

import type { Edge } from "@xyflow/react";
import { formatCount } from "../../format.ts";
import type { GraphNode, GraphNodeData } from "../../graph/node.tsx";
import { edge, NODE_HEIGHT, NODE_WIDTH, nodeLabel } from "../../graph/drawing.ts";
import { datasetsOf, type Flow, type Step, triesOf, whereOf } from "../model/flow.ts";
import { parentsOf, type Place, placesOf } from "../model/placing.ts";
import { referenceOf } from "../model/actions.ts";
import { isDataset } from "../model/rules.ts";
import type { Problem, State } from "../model/store.ts";

const NODE = { type: "card", width: NODE_WIDTH, height: NODE_HEIGHT } as const;

export function nodesOf(
  state: State,
  defaultTemplate: string,
  before: readonly GraphNode[],
  isEditable: boolean,
): GraphNode[] {
  const { flow, history, arranged, selection, problems } = state;
  const places = placesOf(flow, history.now.layout, arranged);
  const known = new Map(before.map((node) => [node.id, node]));
  const used = new Set(datasetsOf(flow));
  const faults = countByStep(problems, flow);
  const steps = new Map(flow.steps.map((step) => [step.name, step]));
  return [...places].map(([id, place]) => {
    const step = steps.get(id);
    const data = step
      ? stepData(step, defaultTemplate, faults.get(id) ?? 0, isEditable)
      : datasetData(id, flow, used, isEditable);
    return reuse(known.get(id), id, place, selection.has(id), data);
  });
}

export function edgesOf(state: State, before: readonly Edge[]): Edge[] {
  const known = new Map(before.map((one) => [one.id, one]));
  const parents = parentsOf(state.flow, state.history.now.layout);
  return Object.entries(parents).flatMap(([target, sources]) =>
    [...new Set(sources)]
      .filter((source) => source in parents)
      .map((source) => {
        const made = edge(source, target);
        const old = known.get(made.id);
        const selected = state.selection.has(made.id);
        return old && (old.selected ?? false) === selected ? old : { ...made, selected };
      }),
  );
}

export function countByStep(problems: readonly Problem[], flow: Flow): Map<string, number> {
  const counts = new Map<string, number>();
  for (const problem of problems) {
    const step = stepOf(problem, flow);
    if (step && !problem.is_note) counts.set(step.name, (counts.get(step.name) ?? 0) + 1);
  }
  return counts;
}

export function stepOf(problem: Problem, flow: Flow): Step | undefined {
  const index = /^steps\[(\d+)\]/.exec(problem.path)?.[1];
  return index === undefined ? undefined : flow.steps[Number(index)];
}

function stepData(step: Step, defaultTemplate: string, problems: number, isConnectable: boolean): GraphNodeData {
  const tries = triesOf(step);
  return {
    kind: "command",
    title: step.title || step.name,
    subtitle: (step.command.trim().split("\n")[0] ?? "") || "no command yet",
    note: whereOf(step, defaultTemplate),
    badges: [
      ...(Number.isFinite(tries) && tries !== 1 ? [`× ${formatCount(tries)}`] : []),
      ...(step.when ? ["if"] : []),
    ],
    problems,
    isConnectable,
  };
}

function datasetData(id: string, flow: Flow, used: ReadonlySet<string>, isConnectable: boolean): GraphNodeData {
  const reference = referenceOf(id);
  const [name = "", version] = reference.split("@");
  const readers = flow.steps.flatMap(({ data }) => data.filter(({ dataset }) => dataset === reference));
  const isCached = readers.length > 0 && readers.every(({ cached }) => cached);
  return {
    kind: "dataset",
    title: name.split("/")[1] ?? reference,
    subtitle: [
      `dataset${version ? ` · @${version}` : ""}`,
      used.has(reference) ? (isCached ? "cached" : "own copy") : "not read yet",
    ].join(" · "),
    isConnectable,
  };
}

function reuse(
  old: GraphNode | undefined,
  id: string,
  [x, y]: Place,
  selected: boolean,
  data: GraphNodeData,
): GraphNode {
  const kept = old && JSON.stringify(old.data) === JSON.stringify(data) ? old.data : data;
  const isSame =
    old && kept === old.data && old.position.x === x && old.position.y === y && (old.selected ?? false) === selected;
  if (isSame) return old;
  const ariaLabel = `${isDataset(id) ? "" : "step "}${nodeLabel(data)}`;
  return { ...NODE, ...old, id, position: { x, y }, selected, data: kept, ariaLabel };
}
