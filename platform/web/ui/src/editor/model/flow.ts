// What a flow file says, read with lenience: a canvas has to show what is half written too. Its keys are the schema's.

import type { Document } from "yaml";
import type * as schema from "./schema.ts";
import type { GridRange, NearlineFlow, ParameterSpec, StepSpec } from "./schema.ts";

// Every key of the file, with a value also where the file has none; `Read` are those that are read into one form.
type Filled<Spec, Read = object> = Omit<{ [Key in keyof Spec]-?: NonNullable<Spec[Key]> }, keyof Read> & Read;

export type Value = NonNullable<ParameterSpec["default"]>;
export type DataInput = Filled<schema.DataInput>;
export type Choice = { template: string; wait: string };
export type Range = Filled<GridRange>;
export type Axis = Value[] | Range;
// The kinds that the canvas asks for. What the YAML says of others stays as it is.
export type Retries = Filled<
  Pick<Exclude<StepSpec["retries"], number | undefined>, "user_error" | "infrastructure" | "out_of_memory" | "timeout">
>;
export type Parameter = Filled<ParameterSpec, { type: string; default: Value | null }>;

export type Launcher = { cpu: string; memory: string; worker_command: string; worker_port: string };

export type Step = Filled<
  StepSpec,
  {
    index: number;
    data: DataInput[];
    compute: Choice[];
    gpus: string;
    cpu: string;
    memory: string;
    retries: Retries;
    timeout: string;
    grace_period: string;
    replicas: number;
    min_replicas: number;
    launcher: Launcher | null;
    completions: number;
    parallelism: number;
    idle_limit: string;
    gpu_memory: string;
    gpu_limit: string;
    topology: { required: string; preferred: string };
    priority: string;
    grid: Record<string, Axis>;
    simulated_duration: string;
  }
>;

export type Flow = Omit<
  Filled<NearlineFlow, { parameters: Record<string, Parameter>; steps: Step[] }>,
  "flow" | "schema_version"
> & {
  name: string;
  isForeign: boolean; // written for cnvrg: `tasks` and `relations`, which the canvas does not edit
};

export const FALLBACKS = [
  ["order", "In this order"],
  ["soonest", "Where it is done first"],
  ["cheapest", "Where it costs least"],
] as const;
export const NO_RETRIES: Retries = { user_error: 0, infrastructure: 3, out_of_memory: 0, timeout: 0 };
export const EMPTY: Flow = { name: "", title: "", description: "", parameters: {}, steps: [], isForeign: false };

export function readFlow(document: Document): Flow {
  const data = mapping(document.toJS({ maxAliasCount: 1000 }));
  return {
    name: text(data["flow"]),
    title: text(data["title"]),
    description: text(data["description"]),
    parameters: each(data["parameters"], readParameter),
    steps: list(data["steps"]).map((step, index) => readStep(mapping(step), index)),
    isForeign: "tasks" in data && !("steps" in data),
  };
}

function readStep(step: Record<string, unknown>, index: number): Step {
  return {
    index,
    name: text(step["name"]),
    title: text(step["title"]),
    command: text(step["command"]),
    image: text(step["image"]),
    parameters: each(step["parameters"], value),
    append_parameters: step["append_parameters"] === true,
    data: list(step["data"]).map(readData),
    after: list(step["after"]).map(text).filter(Boolean),
    outputs: "outputs" in step ? list(step["outputs"]).map(text) : ["**"],
    env: each(step["env"], text),
    secrets: list(step["secrets"]).map(text),
    fallback: FALLBACKS.find(([mode]) => mode === step["fallback"])?.[0] ?? "order",
    compute: (Array.isArray(step["compute"]) ? step["compute"] : [step["compute"]]).filter(Boolean).map(readChoice),
    gpus: text(step["gpus"]),
    cpu: text(step["cpu"]),
    memory: text(step["memory"]),
    resource: text(step["resource"]),
    pools: list(step["pools"]).map(text).filter(Boolean),
    retries: readRetries(step["retries"]),
    timeout: text(step["timeout"]),
    grace_period: text(step["grace_period"]),
    replicas: typeof step["replicas"] === "number" ? step["replicas"] : 1,
    min_replicas: typeof step["min_replicas"] === "number" ? step["min_replicas"] : 0,
    launcher: step["launcher"] && typeof step["launcher"] === "object" ? readLauncher(mapping(step["launcher"])) : null,
    completions: typeof step["completions"] === "number" ? step["completions"] : 1,
    parallelism: typeof step["parallelism"] === "number" ? step["parallelism"] : 0,
    ports: list(step["ports"]).filter((port) => typeof port === "number"),
    volumes: list(step["volumes"]).map(text).filter(Boolean),
    idle_limit: text(step["idle_limit"]),
    gpu_memory: text(step["gpu_memory"]),
    mig: text(step["mig"]),
    gpu_limit: text(step["gpu_limit"]),
    node_labels: list(step["node_labels"]).map(text).filter(Boolean),
    topology: readTopology(mapping(step["topology"])),
    checkpoints: step["checkpoints"] === true,
    priority: text(step["priority"]),
    preemptible: step["preemptible"] !== false,
    when: text(step["when"]),
    grid: each(step["grid"], readAxis),
    simulated_duration: text(step["simulated_duration"]),
  };
}

function readLauncher(launcher: Record<string, unknown>): Launcher {
  return {
    cpu: text(launcher["cpu"]),
    memory: text(launcher["memory"]),
    worker_command: text(launcher["worker_command"]),
    worker_port: text(launcher["worker_port"]),
  };
}

function readTopology(topology: Record<string, unknown>) {
  return { required: text(topology["required"]), preferred: text(topology["preferred"]) };
}

function readData(item: unknown): DataInput {
  const input = mapping(item);
  return {
    dataset: text(input["dataset"]),
    name: text(input["name"]),
    cached: input["cached"] !== false,
    start: input["start"] === "early" ? "early" : "complete",
  };
}

function readChoice(item: unknown): Choice {
  const choice = mapping(item);
  return typeof item === "string"
    ? { template: item, wait: "" }
    : { template: text(choice["template"]), wait: text(choice["wait"]) };
}

// One number stands for all kinds, but those of the platform, which are tried three times at least.
function readRetries(item: unknown): Retries {
  if (typeof item === "number")
    return { user_error: item, infrastructure: Math.max(item, 3), out_of_memory: item, timeout: item };
  const given = mapping(item);
  return {
    ...NO_RETRIES,
    ...Object.fromEntries(Object.entries(given).filter(([, count]) => typeof count === "number")),
  };
}

function readAxis(item: unknown): Axis {
  if (Array.isArray(item)) return item.map(value);
  const range = mapping(item);
  return {
    type: range["type"] === "integer" ? "integer" : "float",
    min: number(range["min"]),
    max: number(range["max"]),
    steps: number(range["steps"]),
    scale: range["scale"] === "log" ? "log" : "linear",
  };
}

function readParameter(item: unknown): Parameter {
  const parameter = mapping(item);
  const given = parameter["default"];
  return {
    type: text(parameter["type"]),
    default: given === null || given === undefined ? null : value(given),
    choices: list(parameter["choices"]).map(value),
    help: text(parameter["help"]),
  };
}

export function folderOf(input: DataInput): string {
  return input.name || (input.dataset.split("@")[0] ?? "").split("/")[1] || "";
}

// How many tries a step multiplies into; 1 without a grid.
export function triesOf(step: Step): number {
  return Object.values(step.grid).reduce(
    (product, axis) => product * (Array.isArray(axis) ? axis.length : axis.steps),
    1,
  );
}

// What a step says of its size in place of templates; nothing where it names these.
export function sizeOf(step: Step): string {
  const amounts = [step.gpus && `${step.gpus} GPU`, step.cpu && `${step.cpu} CPU`, step.memory].filter(Boolean);
  const where = step.resource ? [`on ${step.resource}`] : [];
  if (step.pools.length > 0) where.push(`in ${step.pools.join(", then ")}`);
  return [amounts.join(", "), ...where].filter(Boolean).join(" ");
}

export function whereOf(step: Step, defaultTemplate: string): string {
  return step.compute.map(({ template }) => template).join(", then ") || sizeOf(step) || defaultTemplate;
}

export function datasetsOf(flow: Flow): string[] {
  return [...new Set(flow.steps.flatMap((step) => step.data.map((input) => input.dataset)).filter(Boolean))];
}

export function isRequired(parameter: Parameter): boolean {
  return parameter.default === null;
}

function mapping(item: unknown): Record<string, unknown> {
  return typeof item === "object" && item !== null && !Array.isArray(item) ? (item as Record<string, unknown>) : {};
}

function list(item: unknown): unknown[] {
  return Array.isArray(item) ? item : [];
}

function each<T>(item: unknown, readOne: (value: unknown) => T): Record<string, T> {
  return Object.fromEntries(Object.entries(mapping(item)).map(([key, value]) => [key, readOne(value)]));
}

function text(item: unknown): string {
  return typeof item === "string" ? item : typeof item === "number" || typeof item === "boolean" ? String(item) : "";
}

function number(item: unknown): number {
  return typeof item === "number" ? item : Number.NaN;
}

function value(item: unknown): Value {
  return typeof item === "boolean" || typeof item === "number" ? item : text(item);
}
