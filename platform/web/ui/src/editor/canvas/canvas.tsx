// The canvas: nodes are dragged, connected, selected; everything that changes the flow goes through the actions.

import {
  applyNodeChanges,
  Background,
  BackgroundVariant,
  type Connection,
  type Edge,
  type EdgeChange,
  MiniMap,
  type NodeChange,
  ReactFlow,
  useNodesInitialized,
  useReactFlow,
  useStore,
  useStoreApi,
} from "@xyflow/react";
import { type DragEvent, type MouseEvent, useCallback, useEffect, useRef, useState } from "react";
import { type GraphNode, nodeTypes } from "../../graph/node.tsx";
import { NODE_HEIGHT, NODE_WIDTH, READABLE_ZOOM } from "../../graph/drawing.ts";
import { useTheme } from "../../graph/theme.ts";
import * as actions from "../model/actions.ts";
import { useChosen, useEditor } from "../model/editor.ts";
import { edgesOf, nodesOf } from "./nodes.ts";
import { dropped } from "./palette.tsx";
import { boundsOf, type Place } from "../model/placing.ts";
import { useFollowArrangement } from "./following.ts";
import { CanvasTools, isInSight, useShowBeginning, withInSight } from "./tools.tsx";

const KEYS = { deleteKeyCode: null, selectionKeyCode: "Shift", multiSelectionKeyCode: ["Meta", "Control"] };
const GRID: [number, number] = [4, 4];

export function Canvas() {
  const editor = useEditor();
  const { store, config } = editor;
  const state = useChosen((now) => now);
  const [nodes, setNodes] = useState<GraphNode[]>([]);
  const [edges, setEdges] = useState<Edge[]>([]);
  const { screenToFlowPosition, getViewport, setViewport } = useReactFlow();
  const graph = useStoreApi();
  const isEditable = config.may_write && !state.fault && !state.flow.isForeign;
  const { flow, history, arranged, selection, problems } = state;

  useEffect(() => {
    setNodes((before) => nodesOf(store.state, config.default_template, before, isEditable));
    setEdges((before) => edgesOf(store.state, before));
  }, [store, config, flow, history.now.layout, arranged, selection, problems, isEditable]);

  const isDrawn = useNodesInitialized();
  // A canvas that begins empty stays where it is, so that what is dropped stays where it was dropped.
  const isFitted = useRef(flow.steps.length === 0);
  const showBeginning = useShowBeginning();
  useEffect(() => {
    if (!isDrawn || isFitted.current) return;
    isFitted.current = true;
    showBeginning();
  }, [isDrawn, showBeginning]);

  // The canvas shows the flow anew when it gets another width, as long as nobody has chosen what is in sight, and a node
  // that comes to stand outside of it.
  const isMoved = useRef(false);
  const noteMove = () => (isMoved.current = true);
  const canvasWidth = useStore((now) => now.width);
  useEffect(() => {
    if (isFitted.current && !isMoved.current && canvasWidth > 0) showBeginning();
  }, [canvasWidth, showBeginning]);
  const { fresh } = state;
  const seen = useRef("");
  useEffect(() => {
    // One that got its own name is not fresh any more: the next one is called as it was.
    const shown = nodes.some(({ id }) => id === fresh) ? fresh : "";
    if (seen.current === shown) return;
    seen.current = shown;
    const { width, height, nodeLookup } = graph.getState();
    const place = nodeLookup.get(fresh)?.position;
    if (!place) return;
    const box = { ...place, width: NODE_WIDTH, height: NODE_HEIGHT };
    const view = getViewport();
    if (isInSight(box, view, width, height)) return;
    const all = boundsOf(nodes.map(({ position: { x, y } }): Place => [x, y]));
    void setViewport(withInSight(box, all, { ...view, zoom: Math.max(view.zoom, READABLE_ZOOM) }, width, height));
  }, [fresh, nodes, graph, getViewport, setViewport]);
  useFollowArrangement(nodes, isFitted);

  const onNodesChange = useCallback(
    (changes: NodeChange<GraphNode>[]) => {
      setNodes((before) => applyNodeChanges(changes, before));
      const moved = new Map<string, Place>();
      for (const change of changes) {
        if (change.type === "position" && change.dragging === false && change.position) {
          moved.set(change.id, [change.position.x, change.position.y]);
        }
      }
      if (moved.size > 0) actions.move(editor, moved);
      select(editor, changes);
    },
    [editor],
  );
  const onEdgesChange = useCallback((changes: EdgeChange[]) => select(editor, changes), [editor]);
  const onConnect = useCallback(
    ({ source, target }: Connection) => void actions.connect(editor, source, target),
    [editor],
  );

  const placeOf = (event: DragEvent | MouseEvent): Place => {
    const { x, y } = screenToFlowPosition({ x: event.clientX, y: event.clientY });
    return [Math.round(x - 104), Math.round(y - 29)];
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    const add = dropped(event.dataTransfer);
    if (isEditable && add) add(editor, placeOf(event));
  };
  const onDoubleClick = (event: MouseEvent) => {
    const isPane = event.target instanceof Element && event.target.classList.contains("react-flow__pane");
    if (isPane && isEditable) actions.addCommand(editor, placeOf(event));
  };

  return (
    <ReactFlow
      nodes={nodes}
      edges={edges}
      nodeTypes={nodeTypes}
      onNodesChange={onNodesChange}
      onEdgesChange={onEdgesChange}
      onConnect={onConnect}
      onDrop={onDrop}
      onDragOver={(event) => event.preventDefault()}
      onDoubleClick={onDoubleClick}
      onMove={(event) => event && noteMove()}
      colorMode={useTheme()}
      nodesDraggable={isEditable}
      nodesConnectable={isEditable}
      elevateNodesOnSelect={false}
      zoomOnDoubleClick={false}
      snapToGrid
      snapGrid={GRID}
      minZoom={0.08}
      maxZoom={2}
      ariaLabelConfig={LABELS}
      {...KEYS}
    >
      <Background variant={BackgroundVariant.Dots} gap={18} size={1.4} />
      {nodes.length > 8 && <MiniMap pannable zoomable ariaLabel="Overview of the canvas" nodeBorderRadius={14} />}
      <CanvasTools isEditable={isEditable} onZoom={noteMove} />
      {nodes.length === 0 && isEditable && (
        <div className="canvas-hint">
          Drag a dataset or a command here, double-click, or choose one with the keyboard.
        </div>
      )}
    </ReactFlow>
  );
}

const LABELS = {
  "node.a11yDescription.default": "Enter selects the node, the arrow keys move it, Delete removes it.",
  "node.a11yDescription.keyboardDisabled": "Enter selects the node.",
  "edge.a11yDescription.default": "Enter selects the arrow, Delete removes it.",
};

function select(
  { store }: { store: ReturnType<typeof useEditor>["store"] },
  changes: readonly (NodeChange<GraphNode> | EdgeChange)[],
): void {
  const picked = changes.filter((change) => change.type === "select");
  if (picked.length === 0) return;
  const selection = new Set(store.state.selection);
  for (const { id, selected } of picked) {
    if (selected) selection.add(id);
    else selection.delete(id);
  }
  store.select(...selection);
}
