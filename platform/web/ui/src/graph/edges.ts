// The one look of an arrow.

import type { Edge } from "@xyflow/react";

export function edge(source: string, target: string): Edge {
  return { id: `${source}>${target}`, source, target, ariaLabel: `from ${source} to ${target}` };
}
