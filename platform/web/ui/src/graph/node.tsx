// The one look of a node, in the editor and in a run: a card with an icon, a title, a line, and what is to be noted.

import { Handle, type Node, type NodeProps, Position, useStore } from "@xyflow/react";
import { memo } from "react";
import { FAR_ZOOM, READABLE_ZOOM } from "./drawing.ts";
import { Icon } from "./icon.tsx";

export type NodeKind = "dataset" | "command" | "group";

// How a state looks, as the server's `look_of` says it: never colour alone.
export type StateLook = { word: string; css: string; icon: string };

export type GraphNodeData = {
  title: string;
  kind: NodeKind;
  subtitle?: string;
  note?: string; // a second line at the right: "reused from run 41", "waits for 3 steps"
  state?: StateLook;
  badges?: readonly string[];
  problems?: number;
  isConnectable?: boolean;
  bar?: readonly BarSlice[]; // of a group: how many of its steps are in which state
  isCritical?: boolean; // the run takes as long as it does because of this step
};

export type BarSlice = readonly [css: string, start: number, width: number];

export type GraphNode = Node<GraphNodeData, "card">;

const ICONS: Record<NodeKind, string> = { dataset: "database", command: "terminal-2", group: "stack-2" };

export const nodeTypes = { card: memo(Card) };

function Card({ data, selected }: NodeProps<GraphNode>) {
  const { title, kind, subtitle, note, state, badges, problems, isConnectable = false, bar, isCritical } = data;
  const distance = useStore(({ transform: [, , zoom] }) =>
    zoom < FAR_ZOOM ? "far farther" : zoom < READABLE_ZOOM ? "far" : "",
  );
  return (
    <div
      className={`card-node is-${kind} ${distance} ${state?.css ?? ""} ${selected ? "selected" : ""} ${problems ? "broken" : ""} ${isCritical ? "critical" : ""}`}
    >
      {kind !== "dataset" && <Handle type="target" position={Position.Left} isConnectable={isConnectable} />}
      <div className="title">
        <Icon name={ICONS[kind]} />
        <b>{title} </b>
        {badges?.map((badge) => (
          <span className="tag" key={badge}>
            {badge}{" "}
          </span>
        ))}
        {problems ? <Icon name="alert-triangle" css="problem" /> : state && <Icon name={state.icon} css="state" />}
      </div>
      {subtitle && <div className="line">{subtitle} </div>}
      {bar?.length ? <Bar slices={bar} /> : note && <div className="line to-right">{note}</div>}
      <Handle type="source" position={Position.Right} isConnectable={isConnectable} />
    </div>
  );
}

function Bar({ slices }: { slices: readonly BarSlice[] }) {
  return (
    <svg className="bar" aria-hidden="true">
      {slices.map(([css, start, width]) => (
        <g className={css} key={css + start}>
          <rect x={start} width={width} height="5" />
        </g>
      ))}
    </svg>
  );
}
