// From the server's picture of a run to nodes of React Flow; a new picture replaces only those that differ.

import type { Edge, Node } from "@xyflow/react";
import type { BarSlice, GraphNode, GraphNodeData, NodeKind, StateLook } from "../graph/node.tsx";
import { NODE_HEIGHT, NODE_WIDTH, nodeLabel, LEAST_ZOOM } from "../graph/drawing.ts";

export type Box = {
  id: string;
  kind: NodeKind;
  title: string;
  subtitle: string;
  note: string;
  said: string;
  state: string;
  bar: readonly BarSlice[];
  isCritical: boolean;
  step: string;
  index: number | null;
  group: string;
  link: string;
  x: number;
  y: number;
};

export type Picture = {
  width: number;
  height: number;
  nodes: Box[];
  edges: [string, string][];
  looks: Record<string, StateLook>;
};

/** What the address calls a box: `train:0`, `group:train`; empty for a dataset. */
export function nameOf(box: Box): string {
  if (box.group) return `group:${box.group}`;
  return box.step && `${box.step}:${box.index ?? 0}`;
}

/** The nodes of a picture. One that looks as before is the same object as before, so that nothing draws it again. */
export function patchNodes(before: readonly GraphNode[], picture: Picture, shown: string): GraphNode[] {
  const known = new Map(before.map((node) => [node.id, node]));
  return picture.nodes.map((box) => {
    const old = known.get(box.id);
    const node = nodeOf(box, picture.looks[box.state], shown);
    return old && isSame(old, node) ? old : { ...old, ...node };
  });
}

export function edgesOf(picture: Picture): Edge[] {
  const critical = new Set(picture.nodes.filter((box) => box.isCritical).map((box) => box.id));
  return picture.edges.map(([source, target]) => ({
    id: `${source}>${target}`,
    source,
    target,
    focusable: false,
    className: critical.has(source) && critical.has(target) ? "critical" : "",
  }));
}

/** Where to look at first: all of it where titles can be read, else what is shown, or runs, or the beginning. */
export function firstView(
  picture: Picture,
  shown: string,
  width: number,
  height: number,
): { x: number; y: number; zoom: number } {
  height -= FOOT;
  const fit = Math.min(1, width / picture.width, height / picture.height);
  if (fit >= LEAST_ZOOM) {
    return { x: (width - picture.width * fit) / 2, y: (height - picture.height * fit) / 2, zoom: fit };
  }
  const boxes = picture.nodes;
  const box =
    boxes.find((each) => nameOf(each) === shown) ??
    boxes.find((each) => picture.looks[each.state]?.css === "running") ??
    boxes[0];
  if (!box) return { x: 0, y: 0, zoom: 1 };
  const x = width / 2 - (box.x + NODE_WIDTH / 2) * CLOSE;
  const y = height / 2 - (box.y + NODE_HEIGHT / 2) * CLOSE;
  return { x: within(x, width, picture.width * CLOSE), y: within(y, height, picture.height * CLOSE), zoom: CLOSE };
}

/** Keep a picture's edge out of the middle; in the middle what is smaller than its frame. */
function within(shift: number, frame: number, size: number): number {
  return size <= frame ? (frame - size) / 2 : Math.min(0, Math.max(frame - size, shift));
}

const CLOSE = 0.8;
/** The height that the buttons take below the picture, so that they cover no step of what is shown at first. */
export const FOOT = 34;

function nodeOf(box: Box, state: StateLook | undefined, shown: string): GraphNode {
  const isShown = nameOf(box) !== "" && nameOf(box) === shown;
  const data: GraphNodeData = {
    title: box.title,
    kind: box.kind,
    subtitle: box.subtitle,
    note: box.note,
    ...(state && { state }),
    bar: box.bar,
    isCritical: box.isCritical,
  };
  return {
    id: box.id,
    type: "card",
    position: { x: box.x, y: box.y },
    width: NODE_WIDTH,
    height: NODE_HEIGHT,
    handles: HANDLES,
    data,
    selected: isShown,
    ariaRole: "button",
    ariaLabel: nodeLabel(data, box.said),
  };
}

// Where arrows begin and end is known, so nothing has to be measured before the first drawing.
const HANDLES: NonNullable<Node["handles"]> = [
  { type: "target", position: "left" as never, x: 0, y: NODE_HEIGHT / 2, width: 1, height: 1 },
  { type: "source", position: "right" as never, x: NODE_WIDTH, y: NODE_HEIGHT / 2, width: 1, height: 1 },
];

function isSame(a: GraphNode, b: GraphNode): boolean {
  return (
    a.selected === b.selected &&
    a.ariaLabel === b.ariaLabel &&
    a.position.x === b.position.x &&
    a.position.y === b.position.y &&
    JSON.stringify(a.data) === JSON.stringify(b.data)
  );
}
