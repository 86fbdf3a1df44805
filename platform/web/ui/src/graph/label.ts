// What assistive technology calls a node.

import type { GraphNodeData } from "./node.tsx";

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
