// Everything that the spec lets one say about a step, on four tabs.

import { type KeyboardEvent, useRef, useState } from "react";
import { Icon } from "../../graph/icon.tsx";
import * as actions from "../model/actions.ts";
import { ComputeList } from "./compute_list.tsx";
import { useChosen, useEditor } from "../model/editor.ts";
import { SmallButton, Switch, TextField, TextList } from "./fields.tsx";
import { Inputs } from "./inputs.tsx";
import { type Retries, type Step } from "../model/flow.ts";
import { ParameterRows } from "./parameters.tsx";
import * as patches from "../model/patches.ts";
import { durationOf, valueOf } from "../model/values.ts";
import { Pairs } from "./pairs.tsx";

const LAUNCHER_CPU = 0.5;
const TABS = ["Step", "Inputs", "Conditions", "Advanced"] as const;
type Tab = (typeof TABS)[number];

export type Set = (path: readonly (string | number)[], value: unknown) => void;

// The tab stays when another step is selected: who tunes retries goes from step to step.
let chosenTab: Tab = "Step";

export function StepPanel({ step }: { step: Step }) {
  const editor = useEditor();
  const { store } = editor;
  const isNew = useChosen(({ fresh }) => fresh === step.name);
  const [tab, setTab] = useState<Tab>(isNew ? "Step" : chosenTab);
  const set: Set = (path, value) =>
    store.edit((document) => patches.setStep(document, step.name, path, value), {
      burst: `${step.name} ${path.join(".")}`,
    });
  const choose = (next: Tab) => setTab((chosenTab = next));
  return (
    <>
      <header>
        <Icon name="terminal-2" />
        <h2>{step.name || "a step without a name"}</h2>
        <SmallButton icon="trash" label={`Remove ${step.name}`} onClick={() => actions.remove(editor, [step.name])} />
      </header>
      <Tabs tab={tab} onChoose={choose} />
      <div role="tabpanel" id="step-tab" aria-label={tab}>
        {tab === "Step" && <Main step={step} set={set} isNew={isNew} />}
        {tab === "Inputs" && <Inputs step={step} set={set} />}
        {tab === "Conditions" && <Conditions step={step} set={set} />}
        {tab === "Advanced" && <Advanced step={step} set={set} />}
      </div>
    </>
  );
}

function Tabs({ tab, onChoose }: { tab: Tab; onChoose: (tab: Tab) => void }) {
  const list = useRef<HTMLDivElement>(null);
  const onKeyDown = (event: KeyboardEvent) => {
    const way = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (way === 0) return;
    const next = (TABS.indexOf(tab) + way + TABS.length) % TABS.length;
    onChoose(TABS[next] ?? "Step");
    list.current?.querySelectorAll("button")[next]?.focus();
  };
  return (
    <div className="panel-tabs" role="tablist" aria-label="Parts of the step" ref={list} onKeyDown={onKeyDown}>
      {TABS.map((each) => (
        <button
          type="button"
          key={each}
          role="tab"
          aria-selected={each === tab}
          aria-controls="step-tab"
          tabIndex={each === tab ? 0 : -1}
          onClick={() => onChoose(each)}
        >
          {each}
        </button>
      ))}
    </div>
  );
}

type PartProps = { step: Step; set: Set };

function Main({ step, set, isNew }: PartProps & { isNew: boolean }) {
  const editor = useEditor();
  return (
    <>
      <TextField
        label="Name"
        value={step.name}
        isCode
        isLate
        onChange={(text) => actions.rename(editor, step, text)}
        {...(isNew ? { focusKey: step.name } : {})}
      />
      <TextField
        label="Title"
        value={step.title}
        placeholder={step.name}
        onChange={(text) => set(["title"], text || undefined)}
      />
      <TextField label="Command" value={step.command} isCode rows={2} onChange={(text) => set(["command"], text)} />
      <TextField
        label="Image"
        value={step.image}
        isCode
        placeholder="none: a plain process"
        onChange={(text) => set(["image"], text.trim() || undefined)}
      />
      <ParameterRows step={step} set={set} />
      <ComputeList step={step} set={set} />
      {step.data.length > 0 && (
        <Switch
          label="Use cached datasets"
          value={step.data.every(({ cached }) => cached)}
          help="On: the shared cached copy near the compute. Off: a copy of its own for every job."
          onChange={(isCached) =>
            editor.store.edit((document) =>
              step.data.forEach((_, index) =>
                patches.setStep(document, step.name, ["data", index, "cached"], isCached),
              ),
            )
          }
        />
      )}
    </>
  );
}

const RETRIES: [keyof Retries, string][] = [
  ["user_error", "The command fails"],
  ["infrastructure", "The platform fails"],
  ["out_of_memory", "Out of memory"],
  ["timeout", "Out of time"],
];

function Conditions({ step, set }: PartProps) {
  const { store } = useEditor();
  return (
    <>
      <TextField
        label="Runs only when"
        value={step.when}
        isCode
        rows={2}
        placeholder={step.after[0] ? `${step.after[0]}.accuracy >= 0.9` : "train.accuracy >= 0.9"}
        help={
          step.after.length > 0
            ? `Reads metrics of ${step.after.join(", ")} and parameters.NAME. and, or, not, max(…), min(…).`
            : "A condition reads metrics of the steps that this one waits for. It waits for none yet."
        }
        onChange={(text) => set(["when"], text.trim() || undefined)}
      />
      <fieldset className="group">
        <legend>Retries</legend>
        {RETRIES.map(([kind, words]) => (
          <label className="count-row" key={kind}>
            <span>{words}</span>
            <input
              type="number"
              min={0}
              max={100}
              className="form-control"
              value={step.retries[kind]}
              onChange={(event) =>
                store.edit(
                  (document) =>
                    patches.setRetries(document, step.name, {
                      ...step.retries,
                      [kind]: Math.max(0, Math.round(event.target.valueAsNumber) || 0),
                    }),
                  { burst: `${step.name} retries` },
                )
              }
            />
            <span className="sub small">times</span>
          </label>
        ))}
      </fieldset>
      <TextField
        label="Timeout"
        value={step.timeout}
        isCode
        placeholder="none"
        help="How long one try may take: 90, 30m, 2h."
        onChange={(text) => set(["timeout"], durationOf(text))}
      />
      <TextField
        label="Idle limit"
        value={step.idle_limit}
        isCode
        placeholder="as the project rules"
        help="How long it may be idle before it is stopped: 30m, 2h. The shorter of this and the project's holds."
        onChange={(text) => set(["idle_limit"], durationOf(text))}
      />
      <TextField
        label="Grace period"
        value={step.grace_period}
        isCode
        placeholder="10s"
        help="How long it may go on after SIGTERM, when it is preempted, stopped or out of time."
        onChange={(text) => set(["grace_period"], durationOf(text))}
      />
    </>
  );
}

function Advanced({ step, set }: PartProps) {
  const { config } = useEditor();
  const outputs = step.outputs.length === 1 && step.outputs[0] === "**" ? [] : step.outputs;
  return (
    <>
      <TextList
        label="Outputs"
        values={outputs}
        placeholder="everything: **"
        help="Which files of $NEARLINE_OUTPUT are stored, as globs."
        onChange={(values) => set(["outputs"], values)}
      />
      <Pairs label="Environment" keys="Variable" values={step.env} path={["env"]} step={step} set={set} />
      <TextList
        label="Secrets"
        values={step.secrets}
        suggestions={config.secrets.map((name) => ({ name }))}
        placeholder="name of a secret"
        help="By name; their values are never part of a flow."
        onChange={(values) => set(["secrets"], values)}
      />
      <Switch
        label="Append parameters to the command"
        value={step.append_parameters}
        onChange={(isOn) => set(["append_parameters"], isOn || undefined)}
        help="Adds --name value for each parameter."
      />
      <Switch
        label="Keep checkpoints"
        value={step.checkpoints}
        onChange={(isOn) => set(["checkpoints"], isOn || undefined)}
        help="$NEARLINE_CHECKPOINT_DIR outlives evictions and retries until the step succeeds."
      />
      <TextField
        label="Replicas"
        value={step.replicas === 1 ? "" : String(step.replicas)}
        isCode
        placeholder="1"
        help="So many run together as a gang on a cluster, each as large as the template."
        onChange={(text) => set(["replicas"], valueOf(text) || undefined)}
      />
      {step.replicas > 1 && (
        <>
          <TextField
            label="Replicas at least"
            value={step.min_replicas ? String(step.min_replicas) : ""}
            isCode
            placeholder="all"
            help="With so many it starts, and grows while others need nothing."
            onChange={(text) => set(["min_replicas"], valueOf(text) || undefined)}
          />
          <TextField
            label="All replicas in one"
            value={step.topology.required}
            isCode
            placeholder="topology.kubernetes.io/rack"
            help="A label of nodes: all replicas run where it has one value."
            onChange={(text) => set(["topology", "required"], text.trim() || undefined)}
          />
          <TextField
            label="Better in one"
            value={step.topology.preferred}
            isCode
            placeholder="topology.kubernetes.io/rack"
            help="The same, where it is possible."
            onChange={(text) => set(["topology", "preferred"], text.trim() || undefined)}
          />
        </>
      )}
      <Switch
        label="Launcher without GPUs"
        value={step.launcher !== null}
        onChange={(isOn) => set(["launcher"], isOn ? { cpu: LAUNCHER_CPU } : undefined)}
        help="One more pod runs the command, as mpirun; the replicas run sshd, and it starts processes in them."
      />
      {step.launcher && (
        <>
          <TextField
            label="CPU of the launcher"
            value={step.launcher.cpu}
            isCode
            placeholder={String(LAUNCHER_CPU)}
            help="How many cores it has."
            onChange={(text) => set(["launcher", "cpu"], text.trim() ? valueOf(text) : LAUNCHER_CPU)}
          />
          <TextField
            label="Memory of the launcher"
            value={step.launcher.memory}
            isCode
            placeholder="1GiB"
            help="How much memory it has."
            onChange={(text) => set(["launcher", "memory"], text.trim() || undefined)}
          />
          <TextField
            label="Command of replicas"
            value={step.launcher.worker_command}
            isCode
            placeholder="exec /usr/sbin/sshd -D"
            help="What they run beside the launcher."
            onChange={(text) => set(["launcher", "worker_command"], text.trim() || undefined)}
          />
          <TextField
            label="Port of replicas"
            value={step.launcher.worker_port}
            isCode
            placeholder="22"
            help="The launcher begins once each replica listens there; 0: at once."
            onChange={(text) => set(["launcher", "worker_port"], text.trim() ? valueOf(text) : undefined)}
          />
        </>
      )}
      <TextField
        label="Completions"
        value={step.completions === 1 ? "" : String(step.completions)}
        isCode
        placeholder="1"
        help="It runs as so many parts, each with its own $NEARLINE_INDEX, until all have succeeded."
        onChange={(text) => set(["completions"], valueOf(text) || undefined)}
      />
      <TextField
        label="Parallelism"
        value={step.parallelism ? String(step.parallelism) : ""}
        isCode
        placeholder={step.completions > 1 ? "1" : "all"}
        help="So many of its parts, or of the tries of its grid, run at once at most."
        onChange={(text) => set(["parallelism"], valueOf(text) || undefined)}
      />
      <TextList
        label="Ports"
        values={step.ports.map(String)}
        suggestions={[]}
        placeholder="8080"
        help="On which its programs listen, for those who are to reach them."
        onChange={(values) => set(["ports"], values.map(valueOf))}
      />
      <TextList
        label="Volumes"
        values={step.volumes}
        suggestions={[]}
        placeholder="NAME:/path"
        help="What it mounts of what an admin offers there. NAME:/path:ro only reads."
        onChange={(values) => set(["volumes"], values)}
      />
      <TextField
        label="Memory of a GPU"
        value={step.gpu_memory}
        isCode
        placeholder="10GiB"
        help="A share of one GPU by its memory, in place of the template's GPUs."
        onChange={(text) => set(["gpu_memory"], text.trim() || undefined)}
      />
      <TextField
        label="MIG profile"
        value={step.mig}
        isCode
        placeholder="2g.10gb"
        help="A slice of one GPU, in place of the template's GPUs."
        onChange={(text) => set(["mig"], text.trim() || undefined)}
      />
      <TextField
        label="GPU limit"
        value={step.gpu_limit}
        isCode
        placeholder="its share"
        help="How much of its GPU it may use while nobody else does: 0.8."
        onChange={(text) => set(["gpu_limit"], text.trim() ? valueOf(text) : undefined)}
      />
      <TextList
        label="Labels of nodes"
        values={step.node_labels}
        suggestions={[]}
        placeholder="key=value"
        help="Its nodes have one of them."
        onChange={(values) => set(["node_labels"], values)}
      />
      <Switch
        label="Preemptible"
        value={step.preemptible}
        onChange={(isOn) => set(["preemptible"], isOn ? undefined : false)}
        help="It may be stopped for others, and starts anew. If not, it starts only within the project's quota."
      />
      <TextField
        label="Priority"
        value={step.priority}
        isCode
        placeholder="train"
        help="Within the project: train, build-preemptible, build, inference, or a number."
        onChange={(text) => set(["priority"], text.trim() ? valueOf(text) : undefined)}
      />
      <TextField
        label="Simulated duration"
        value={step.simulated_duration}
        isCode
        placeholder="5s"
        help="How long it takes on simulated nodes."
        onChange={(text) => set(["simulated_duration"], durationOf(text))}
      />
    </>
  );
}
