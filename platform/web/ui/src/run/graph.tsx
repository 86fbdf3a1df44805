// The graph of a run, drawn by React Flow over the picture that the server drew; that one stays for those without script.
// It takes each new picture that the page gets, and a click or Enter on a node shows its step in the panel.

import { Background, BackgroundVariant, Controls, MiniMap, ReactFlow, ReactFlowProvider } from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import "../styles/graph.scss";
import { type KeyboardEvent, useEffect, useState } from "react";
import { createRoot, type Root } from "react-dom/client";
import { type GraphNode, nodeTypes } from "../graph/node.tsx";
import { LEAST_ZOOM } from "../graph/drawing.ts";
import { useTheme } from "../graph/theme.ts";
import { type Box, edgesOf, firstView, FOOT, nameOf, patchNodes, type Picture } from "./nodes.ts";
import { openStep, PICTURE_CHANGED, shownStep } from "./page.ts";

const MOST_HEIGHT = 520;
const LEAST_HEIGHT = 116;
const WITH_MAP = 40;

export class RunGraph extends HTMLElement {
  #root: Root | undefined;

  connectedCallback(): void {
    const picture = readPicture();
    if (this.#root || !picture) return;
    const stage = document.createElement("div");
    stage.className = "run-canvas";
    const width = this.clientWidth;
    const zoom = Math.max(LEAST_ZOOM, Math.min(1, width / picture.width));
    const height = FOOT + Math.max(LEAST_HEIGHT, Math.min(MOST_HEIGHT, picture.height * zoom));
    stage.style.height = `${height}px`;
    this.querySelector(".canvas")?.replaceWith(stage);
    this.#root = createRoot(stage);
    this.#root.render(
      <ReactFlowProvider>
        <Graph first={picture} size={[width, height]} />
      </ReactFlowProvider>,
    );
  }

  disconnectedCallback(): void {
    this.#root?.unmount();
    this.#root = undefined;
  }
}

function Graph({ first, size: [width, height] }: { first: Picture; size: [number, number] }) {
  const theme = useTheme();
  const [picture, setPicture] = useState(first);
  const [nodes, setNodes] = useState<GraphNode[]>(() => patchNodes([], first, shownStep()));
  const [edges, setEdges] = useState(() => edgesOf(first));

  useEffect(() => {
    const take = () => {
      const next = readPicture();
      if (!next) return;
      setPicture(next);
      setNodes((before) => patchNodes(before, next, shownStep()));
      // Arrows change only with the path that is marked, or when a group is opened.
      setEdges((before) => (sameEdges(before, edgesOf(next)) ? before : edgesOf(next)));
    };
    document.addEventListener(PICTURE_CHANGED, take);
    return () => document.removeEventListener(PICTURE_CHANGED, take);
  }, []);

  const open = (id: string | undefined, isByKey: boolean) => {
    const box = picture.nodes.find((each) => each.id === id);
    if (box) openBox(box, isByKey);
  };
  const onKeyDown = (event: KeyboardEvent<HTMLElement>) => {
    const node = event.target instanceof Element ? event.target.closest<HTMLElement>(".react-flow__node") : null;
    if (!node || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    open(node.dataset["id"], true);
  };

  return (
    <ReactFlow
      nodes={nodes}
      edges={edges}
      nodeTypes={nodeTypes}
      colorMode={theme}
      defaultViewport={firstView(picture, shownStep(), width, height)}
      minZoom={0.1}
      maxZoom={1.5}
      nodesDraggable={false}
      nodesConnectable={false}
      elementsSelectable={false}
      nodesFocusable
      edgesFocusable={false}
      onlyRenderVisibleElements={first.nodes.length > WITH_MAP}
      zoomOnScroll={false}
      preventScrolling={false}
      onNodeClick={(_, node) => open(node.id, false)}
      onKeyDown={onKeyDown}
      aria-label="Graph of the run"
    >
      <Background variant={BackgroundVariant.Dots} gap={18} size={1} />
      <Controls showInteractive={false} orientation="horizontal" />
      {first.nodes.length > WITH_MAP && (
        <MiniMap pannable zoomable nodeClassName={(node) => cssOf(node as GraphNode)} />
      )}
    </ReactFlow>
  );
}

function openBox(box: Box, isByKey: boolean): void {
  if (box.link) location.assign(box.link);
  else openStep(nameOf(box), isByKey);
}

function cssOf(node: GraphNode): string {
  return node.data.state?.css ?? "";
}

function sameEdges(a: readonly { id: string; className?: string }[], b: typeof a): boolean {
  return (
    a.length === b.length &&
    a.every((edge, place) => edge.id === b[place]?.id && edge.className === b[place]?.className)
  );
}

function readPicture(): Picture | null {
  const data = document.querySelector("#run-graph-data script")?.textContent;
  return data ? (JSON.parse(data) as Picture) : null;
}
