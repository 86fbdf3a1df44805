// What the server tells the editor when the page opens.

import type { Layout } from "./history.ts";

export type Choice = { name: string; detail: string };

export type Draft = {
  text: string;
  layout: Layout;
  base_version: number | null;
  example: string;
  revision: number;
  updated_at: string;
};

export type Config = {
  project: string;
  key: string; // the flow's name, or one that starts with '~' for a flow that does not exist yet
  user: string;
  version: { number: number | null; text: string; layout: Layout }; // what the writing begins from; a new flow has no number
  draft: Draft | null;
  example: string;
  view: "canvas" | "split";
  may_write: boolean;
  templates: Choice[];
  default_template: string;
  datasets: Choice[];
  secrets: string[];
};
