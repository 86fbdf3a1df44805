// What part of the flow the canvas shows by itself.

import { getViewportForBounds, type Rect, useReactFlow, useStoreApi, type Viewport } from "@xyflow/react";
import { useCallback } from "react";
import { READABLE_ZOOM } from "../graph/size.ts";

const MARGIN = 24;

/** A function that shows everything, if it can be read then; otherwise as much as can be read, from the first steps on. */
export function useShowBeginning(): () => void {
  const { getNodesBounds, setViewport } = useReactFlow();
  const graph = useStoreApi();
  return useCallback(() => {
    const { nodes, domNode } = graph.getState();
    if (domNode) void setViewport(viewOf(getNodesBounds(nodes), domNode.clientWidth, domNode.clientHeight));
  }, [graph, getNodesBounds, setViewport]);
}

function viewOf(bounds: Rect, width: number, height: number): Viewport {
  const { x, y, zoom } = getViewportForBounds(bounds, width, height, READABLE_ZOOM, 1, `${MARGIN}px`);
  return { x: Math.max(x, MARGIN - bounds.x * zoom), y: Math.max(y, MARGIN - bounds.y * zoom), zoom };
}
