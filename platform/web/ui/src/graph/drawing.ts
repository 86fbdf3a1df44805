// How every graph is drawn: sizes, arrows, and the names that assistive technology reads.

import type { Edge } from "@xyflow/react";
import type { GraphNodeData } from "./node.tsx";

// The size of a node in pixels: the same as in flows/engine/layout.py, so that the server's places fit.
export const NODE_WIDTH = 208;
export const NODE_HEIGHT = 58;

// The smallest zoom with all text on a node: at it the smallest is 8 px high. Below it a node shows its title, enlarged.
export const READABLE_ZOOM = 0.7;
// Below it titles are enlarged once more.
export const FAR_ZOOM = 0.4;
// The smallest zoom that a graph gets by itself: at it the enlarged titles are 8 px high, and four steps fit a phone.
export const LEAST_ZOOM = 0.3;

export function edge(source: string, target: string): Edge {
  return { id: `${source}>${target}`, source, target, ariaLabel: `from ${source} to ${target}` };
}

/** The name of a node. It begins with what can be read on it, in that order, so that both are the same name. */
export function nodeLabel(
  { title, kind, badges = [], subtitle, note, state, problems }: GraphNodeData,
  more = "",
): string {
  const faults = problems ? `${problems} problem${problems > 1 ? "s" : ""}` : "";
  return [kind === "dataset" ? `dataset ${title}` : title, ...badges, subtitle, note, state?.word, faults, more]
    .filter(Boolean)
    .join(", ");
}
