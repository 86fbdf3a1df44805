// Made from docs/reference/flow.schema.json by `make fix`.

export type Duration = string | number;

/**
 * A pipeline: typed parameters and steps that wait for each other.
 */
export interface NearlineFlow {
  schema_version?: 1;
  /**
   * The flow's name: lower-case letters, digits and '-'.
   */
  flow: string;
  /**
   * What pages show besides the name.
   */
  title?: string;
  /**
   * What the flow is for.
   */
  description?: string;
  /**
   * The values that a run is given; commands get them as `${{ parameters.NAME }}`.
   */
  parameters?: {
    [k: string]: ParameterSpec;
  };
  /**
   * The steps, in any order; `after` says what waits for what.
   *
   * @minItems 1
   */
  steps: StepSpec[];
}
/**
 * A value that a run of the flow may be given. Without a default it must be.
 */
export interface ParameterSpec {
  /**
   * What values are: a number, a whole number, a text, or true or false.
   */
  type: "float" | "int" | "str" | "bool";
  /**
   * The value of runs that give none. Without a default every run must give one.
   */
  default?: boolean | number | string | null;
  /**
   * The only values allowed; empty: any of the type.
   */
  choices?: (boolean | number | string)[];
  /**
   * What it is for; stands beside its field in the form of a run.
   */
  help?: string;
}
/**
 * One step: a command, what it needs, where it may run, and what it waits for.
 */
export interface StepSpec {
  /**
   * What other steps call it: lower-case letters, digits, '_' and '-'.
   */
  name: string;
  /**
   * What pages show in place of the name.
   */
  title?: string;
  /**
   * A shell command. `${{ parameters.NAME }}` is replaced, quoted as the shell needs it.
   */
  command: string;
  /**
   * The container image. It has no effect on this machine, whose jobs are plain processes.
   */
  image?: string;
  /**
   * Values for this step's command, besides those of the flow.
   */
  parameters?: {
    [k: string]: boolean | number | string;
  };
  /**
   * Whether to add `--name value` for each parameter to the command.
   */
  append_parameters?: boolean;
  /**
   * The datasets that it reads, each in a folder under `$NEARLINE_DATA`.
   */
  data?: DataInput[];
  /**
   * The steps that it waits for. Their outputs are in `$NEARLINE_INPUT/<step>`.
   */
  after?: string[];
  /**
   * Which files of `$NEARLINE_OUTPUT` are kept, as globs.
   */
  outputs?: string[];
  /**
   * Variables for the command.
   */
  env?: {
    [k: string]: string;
  };
  /**
   * Names of the project's secrets that the command gets as variables.
   */
  secrets?: string[];
  /**
   * Templates in the order in which they are tried; each may say how long to wait there.
   */
  compute?:
    | string
    | (
        | string
        | {
            template: string;
            wait?: string | number;
          }
      )[];
  /**
   * A size of its own in place of `compute`: `2` GPUs, or `0.5` for a part of one.
   */
  gpus?: number | null;
  /**
   * In place of `compute`: how many cores. Without it what belongs to its GPUs.
   */
  cpu?: number | null;
  /**
   * In place of `compute`: how much memory, as `16GiB`. Without it what belongs to its GPUs.
   */
  memory?: (string | number) | null;
  /**
   * In place of `compute`: the resource where it runs. Without it a place is found in `pools`.
   */
  resource?: string;
  /**
   * In place of `compute`: where a place is found, the best first. Without them where its project prefers.
   *
   * @maxItems 100
   */
  pools?: string[];
  /**
   * How it chooses among its places: in turn, where it is forecast to be done first, or where it costs least.
   */
  fallback?: "order" | "soonest" | "cheapest";
  /**
   * How many replicas of the command run together as a gang, each as large as the template. All start, or none.
   */
  replicas?: number;
  /**
   * With so many replicas it starts; it grows while others need nothing, and gives back first. 0: all, or none.
   */
  min_replicas?: number;
  /**
   * One more pod, without GPUs, that runs the command, as `mpirun`; the replicas wait for it. `{}`: as usual.
   */
  launcher?: LauncherSpec | null;
  /**
   * More than one: it runs as so many parts, each with its own `$NEARLINE_INDEX`, until all have succeeded.
   */
  completions?: number;
  /**
   * So many parts, or tries of a grid, run at once at most. Without it: parts one by one, the tries of a grid all.
   */
  parallelism?: number | null;
  /**
   * On which its programs listen, for those who are to reach them.
   *
   * @maxItems 100
   */
  ports?: number[];
  /**
   * What it mounts of what an admin offers there, as `NAME:/path` or `NAME:/path:ro`. Simulated nodes mount none.
   *
   * @maxItems 100
   */
  volumes?: string[];
  /**
   * A share of one GPU by its memory, as `10GiB`, in place of the template's GPUs.
   */
  gpu_memory?: string | number;
  /**
   * A slice of one GPU (MIG) by its profile, as `2g.10gb`, in place of the template's GPUs.
   */
  mig?: string;
  /**
   * How much of its GPU it may use while nobody else does, as `0.8`; 0: no more than its share.
   */
  gpu_limit?: number;
  /**
   * Labels of nodes, `key=value`, of which its nodes have one; empty: any node.
   */
  node_labels?: string[];
  topology?: Topology;
  /**
   * Of a project's jobs the higher go first, and may take the place of lower preemptible ones; a number or a name.
   */
  priority?: number | ("train" | "build-preemptible" | "build" | "inference");
  /**
   * Whether it may be stopped for others, to start anew later. If not, it starts only within the project's quota.
   */
  preemptible?: boolean;
  /**
   * How often it is tried again: one number for every kind of failure, or one for each.
   */
  retries?:
    | number
    | {
        user_error?: number;
        infrastructure?: number;
        out_of_memory?: number;
        timeout?: number;
        image_unavailable?: number;
        unschedulable?: number;
        quota_exceeded?: number;
        evicted?: number;
        preempted?: number;
        node_lost?: number;
        deleted?: number;
        output_lost?: number;
      };
  /**
   * How long one try may take: `90`, `30m`, `2h`. Without it there is no limit.
   */
  timeout?: Duration | null;
  /**
   * How long it may be idle before it is stopped, from `1m`; without it, as its project rules. The shorter holds.
   */
  idle_limit?: (string | number) | null;
  /**
   * How long its command may go on after SIGTERM, when it is preempted, stopped or out of time: `30s`, `2m`.
   */
  grace_period?: string | number;
  /**
   * Whether it has a folder, `$NEARLINE_CHECKPOINT_DIR`, that outlives evictions and retries until it succeeds.
   */
  checkpoints?: boolean;
  /**
   * It runs only when this holds: `train.accuracy >= 0.9 and not max(train.loss) > 2`. Else it is skipped.
   */
  when?: string;
  /**
   * Parameters with several values, or a range of them: it runs once for every combination.
   */
  grid?: {
    [k: string]: (boolean | number | string)[] | GridRange;
  };
  /**
   * How long it takes on simulated nodes, which run nothing.
   */
  simulated_duration?: string | number;
}
/**
 * A dataset that a step reads at `$NEARLINE_DATA/<name>`: the shared cached copy, or its own one.
 */
export interface DataInput {
  /**
   * `project/dataset`, or with a branch, a tag or a commit: `project/dataset@main`. Resolved when a run starts.
   */
  dataset: string;
  /**
   * The folder under `$NEARLINE_DATA`; without it the dataset's name.
   */
  name?: string;
  /**
   * Whether to read the shared cached copy near the compute, or a copy of its own.
   */
  cached?: boolean;
  /**
   * When the step may start: once the cached copy is complete, or `early`, once its first files are there.
   */
  start?: "complete" | "early";
}
/**
 * A pod without GPUs beside the replicas, which runs the step's command and starts processes in them, for MPI.
 */
export interface LauncherSpec {
  /**
   * How many cores it has.
   */
  cpu?: number;
  /**
   * How much memory it has, as `1GiB`.
   */
  memory?: string | number;
  /**
   * What a shell of each replica runs meanwhile.
   */
  worker_command?: string;
  /**
   * It begins once each replica listens there; 0: once their host names are known.
   */
  worker_port?: number;
}
/**
 * Labels of nodes, such as that of a rack, of which all replicas find one value.
 */
export interface Topology {
  /**
   * All replicas run on nodes with one value of this label, or none does.
   */
  required?: string;
  /**
   * The same where it is possible.
   */
  preferred?: string;
}
/**
 * Numbers of a grid's axis: `steps` of them from `min` (included) up to `max` (excluded).
 */
export interface GridRange {
  /**
   * Whole numbers (each once), or any.
   */
  type?: "integer" | "float";
  /**
   * The first number.
   */
  min: number;
  /**
   * Where the numbers end; it is none of them.
   */
  max: number;
  /**
   * How many numbers.
   */
  steps: number;
  /**
   * Evenly spaced, or evenly spaced in their logarithms.
   */
  scale?: "linear" | "log";
}
