// The buttons at the foot of the canvas, and what part of the flow it shows by itself.

import { getViewportForBounds, type Rect, useReactFlow, useStoreApi, type Viewport } from "@xyflow/react";
import { useCallback } from "react";
import { LEAST_ZOOM } from "../../graph/drawing.ts";
import { Icon } from "../../graph/icon.tsx";
import { useChosen, useEditor } from "../model/editor.ts";
import { boundsOf, placesOf, tidyUp } from "../model/placing.ts";

const MARGIN = 24;
/** The height that the buttons take from the canvas, so that they cover no step of what is shown by itself. */
const FOOT = 60;
const PADDING = { x: `${MARGIN}px`, top: `${MARGIN}px`, bottom: `${FOOT}px` } as const;

export function CanvasTools({ isEditable, onZoom }: { isEditable: boolean; onZoom: () => void }) {
  const { store } = useEditor();
  const { zoomIn, zoomOut, fitView } = useReactFlow();
  const showBeginning = useShowBeginning();
  const zoom = (change: typeof zoomIn) => {
    onZoom();
    void change();
  };
  const tidy = async () => {
    try {
      await tidyUp(store);
      showBeginning();
    } catch {
      store.say("The server does not answer; the nodes stay where they are.");
    }
  };
  return (
    <div className="canvas-tools nopan" role="toolbar" aria-label="Canvas">
      <Tool icon="zoom-in" label="Zoom in" onClick={() => zoom(zoomIn)} />
      <Tool icon="zoom-out" label="Zoom out" onClick={() => zoom(zoomOut)} />
      <Tool icon="maximize" label="Show everything" onClick={() => void fitView({ padding: PADDING, maxZoom: 1 })} />
      <button type="button" className="btn" onClick={() => void tidy()} disabled={!isEditable}>
        <Icon name="layout-distribute-vertical" />
        Tidy up
      </button>
      <UndoButtons />
    </div>
  );
}

export function UndoButtons() {
  const { store } = useEditor();
  const canUndo = useChosen(({ history }) => history.past.length > 0);
  const canRedo = useChosen(({ history }) => history.future.length > 0);
  return (
    <>
      <Tool icon="arrow-back-up" label="Undo" onClick={() => store.undo()} disabled={!canUndo} />
      <Tool icon="arrow-forward-up" label="Redo" onClick={() => store.redo()} disabled={!canRedo} />
    </>
  );
}

function Tool({
  icon,
  label,
  onClick,
  disabled = false,
}: {
  icon: string;
  label: string;
  onClick: () => void;
  disabled?: boolean;
}) {
  return (
    <button type="button" className="btn" title={label} aria-label={label} onClick={onClick} disabled={disabled}>
      <Icon name={icon} />
    </button>
  );
}

/** A function that shows everything, if titles can be read then; otherwise as much as can be read, from the first steps on. */
export function useShowBeginning(): () => void {
  const { store } = useEditor();
  const { setViewport } = useReactFlow();
  const graph = useStoreApi();
  return useCallback(() => {
    const { domNode } = graph.getState();
    const { flow, history, arranged } = store.state;
    // Where the nodes stand now: what is drawn follows only with the next frames.
    const bounds = boundsOf(placesOf(flow, history.now.layout, arranged).values());
    if (domNode) void setViewport(viewOf(bounds, domNode.clientWidth, domNode.clientHeight));
  }, [store, graph, setViewport]);
}

/** Whether all of a part of the canvas is in sight, and the buttons cover none of it. */
export function isInSight(part: Rect, { x, y, zoom }: Viewport, width: number, height: number): boolean {
  return (
    part.x * zoom + x > 0 &&
    part.y * zoom + y > 0 &&
    (part.x + part.width) * zoom + x < width &&
    (part.y + part.height) * zoom + y < height - FOOT
  );
}

/**
 * The view nearest to one in which a part of the canvas is in sight, and all of it where that fits: moved, and smaller
 * only where not even the part fits.
 */
export function withInSight(wish: Rect, all: Rect, view: Viewport, width: number, height: number): Viewport {
  const { zoom } = view;
  const fits = (part: Rect) => part.width * zoom <= width - 2 * MARGIN && part.height * zoom <= height - MARGIN - FOOT;
  const part = fits(all) ? all : wish;
  if (!fits(part)) return getViewportForBounds(part, width, height, LEAST_ZOOM, zoom, PADDING);
  const [right, bottom] = [(part.x + part.width) * zoom, (part.y + part.height) * zoom];
  return {
    x: Math.max(MARGIN - part.x * zoom, Math.min(view.x, width - MARGIN - right)),
    y: Math.max(MARGIN - part.y * zoom, Math.min(view.y, height - FOOT - bottom)),
    zoom,
  };
}

function viewOf(bounds: Rect, width: number, height: number): Viewport {
  const { x, y, zoom } = getViewportForBounds(bounds, width, height, LEAST_ZOOM, 1, PADDING);
  return { x: Math.max(x, MARGIN - bounds.x * zoom), y: Math.max(y, MARGIN - bounds.y * zoom), zoom };
}
