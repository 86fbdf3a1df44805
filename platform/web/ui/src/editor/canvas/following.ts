// When the server lays the graph out anew, what is in sight stays in sight.

import { useReactFlow, useStoreApi } from "@xyflow/react";
import { type RefObject, useEffect, useRef } from "react";
import { NODE_HEIGHT, NODE_WIDTH } from "../../graph/drawing.ts";
import type { GraphNode } from "../../graph/node.tsx";
import { useChosen, useEditor } from "../model/editor.ts";
import { boundsOf, type Place, placesOf } from "../model/placing.ts";
import { isInSight, useShowBeginning, withInSight } from "./tools.tsx";

/** Moves the view with the nodes. `nodes` are those that are drawn, still at the places before. */
export function useFollowArrangement(nodes: readonly GraphNode[], isFitted: RefObject<boolean>): void {
  const { store } = useEditor();
  const arranged = useChosen((state) => state.arranged);
  const { getViewport, setViewport } = useReactFlow();
  const showBeginning = useShowBeginning();
  const graph = useStoreApi();
  const drawn = useRef(nodes);
  drawn.current = nodes;

  useEffect(() => {
    if (!isFitted.current || Object.keys(arranged).length === 0) return;
    const { flow, history, selection, linked } = store.state;
    const after = placesOf(flow, history.now.layout, arranged);
    const before = new Map<string, Place>(drawn.current.map(({ id, position: { x, y } }) => [id, [x, y]]));
    const { width, height } = graph.getState();
    const view = getViewport();
    const isShown = (places: Iterable<Place>) => isInSight(boundsOf(places), view, width, height);
    if (isShown(after.values())) return;
    if (isShown(before.values())) {
      showBeginning();
      return;
    }
    const id = anchorOf(before, after, new Set([...linked, ...selection]), (place) => {
      const box = { x: place[0], y: place[1], width: NODE_WIDTH, height: NODE_HEIGHT };
      if (!isInSight(box, view, width, height)) return Number.POSITIVE_INFINITY;
      return Math.hypot(
        (box.x + NODE_WIDTH / 2) * view.zoom + view.x - width / 2,
        (box.y + NODE_HEIGHT / 2) * view.zoom + view.y - height / 2,
      );
    });
    const [from, to] = [before.get(id), after.get(id)];
    if (!from || !to) return;
    const [x, y] = [view.x + (from[0] - to[0]) * view.zoom, view.y + (from[1] - to[1]) * view.zoom];
    const ends = linked.map((end) => after.get(end)).filter((place) => place !== undefined);
    void setViewport(withInSight(boundsOf([to, ...ends]), boundsOf(after.values()), { ...view, x, y }, width, height));
    if (linked.length > 0) store.set({ linked: [] });
  }, [arranged, store, graph, getViewport, setViewport, showBeginning, isFitted]);
}

/** The node that stays where it is: the nearest to the middle, of those that somebody works on if one of them is in sight. */
function anchorOf(
  before: ReadonlyMap<string, Place>,
  after: ReadonlyMap<string, Place>,
  favoured: ReadonlySet<string>,
  distance: (place: Place) => number,
): string {
  const near = [...before]
    .filter(([id, place]) => after.has(id) && Number.isFinite(distance(place)))
    .toSorted(([, one], [, other]) => distance(one) - distance(other))
    .map(([id]) => id);
  return near.find((id) => favoured.has(id)) ?? near[0] ?? "";
}
