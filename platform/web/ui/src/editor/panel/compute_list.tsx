// Where a step may run: its templates, how it chooses among them, and how long to wait at each where their order decides.
// Or a size of its own, for which places are found.

import { type DragEvent, useState } from "react";
import { Icon } from "../../graph/icon.tsx";
import { useEditor } from "../model/editor.ts";
import { SelectField, SmallButton, TextField, TextList } from "./fields.tsx";
import { type Choice, FALLBACKS, sizeOf, type Step } from "../model/flow.ts";
import type { Set } from "./step.tsx";
import { durationOf, valueOf } from "../model/values.ts";

export function ComputeList({ step, set }: { step: Step; set: Set }) {
  const { config } = useEditor();
  const [dragged, setDragged] = useState<number | null>(null);
  const choices = step.compute;
  const size = sizeOf(step);
  const write = (next: readonly Choice[]) =>
    set(
      ["compute"],
      next.map(({ template, wait }) => (wait ? { template, wait: durationOf(wait) } : template)),
    );
  const shift = (from: number, to: number) => {
    const rest = choices.toSpliced(from, 1);
    const moved = choices[from];
    if (moved && to >= 0 && to < choices.length) write(rest.toSpliced(to, 0, moved));
  };
  const onDrop = (event: DragEvent, index: number) => {
    event.preventDefault();
    if (dragged !== null) shift(dragged, index);
    setDragged(null);
  };
  return (
    <fieldset className="group">
      <legend>Compute</legend>
      {choices.length === 0 && !size && (
        <p className="sub small">{config.default_template}, because neither a template nor a size is chosen</p>
      )}
      <ol className="compute-list">
        {choices.map((choice, index) => (
          <li
            key={index}
            draggable
            className={dragged === index ? "dragged" : ""}
            onDragStart={(event) => {
              // Only the handle's row moves; a text that is dragged inside a field stays a text.
              if (event.target instanceof HTMLLIElement) setDragged(index);
            }}
            onDragOver={(event) => dragged !== null && event.preventDefault()}
            onDrop={(event) => onDrop(event, index)}
            onDragEnd={() => setDragged(null)}
          >
            <div className="entry">
              <Icon name="grip-vertical" css="grip" />
              <TextField
                label={`Template ${index + 1}`}
                isLabelHidden
                isCode
                isLate
                value={choice.template}
                suggestions={config.templates}
                onChange={(text) => text.trim() && write(choices.with(index, { ...choice, template: text.trim() }))}
              />
              <SmallButton
                icon="chevron-up"
                label={`Try ${choice.template} earlier`}
                disabled={index === 0}
                onClick={() => shift(index, index - 1)}
              />
              <SmallButton
                icon="chevron-down"
                label={`Try ${choice.template} later`}
                disabled={index === choices.length - 1}
                onClick={() => shift(index, index + 1)}
              />
              <SmallButton
                icon="x"
                label={`Remove ${choice.template}`}
                onClick={() => write(choices.toSpliced(index, 1))}
              />
            </div>
            <div className="facts-line">
              <span className="sub small">{config.templates.find(({ name }) => name === choice.template)?.detail}</span>
              {step.fallback !== "order" ? null : index < choices.length - 1 ? (
                <label className="wait small">
                  wait up to
                  <TextField
                    label={`Wait for ${choice.template}`}
                    isLabelHidden
                    isCode
                    value={choice.wait}
                    placeholder="5m"
                    onChange={(text) => write(choices.with(index, { ...choice, wait: text.trim() }))}
                  />
                </label>
              ) : (
                choices.length > 1 && <span className="sub small">the last one: no limit</span>
              )}
            </div>
          </li>
        ))}
      </ol>
      {!size && (
        <TextField
          label="Add a template"
          isLabelHidden
          isCode
          isLate
          value=""
          placeholder="add a template"
          suggestions={config.templates}
          onChange={(text) => text.trim() && write([...choices, { template: text.trim(), wait: "" }])}
        />
      )}
      {(choices.length === 0 || size) && <Size step={step} set={set} />}
      {(choices.length > 1 || size) && (
        <SelectField
          label="Choose a place"
          value={step.fallback}
          options={FALLBACKS}
          onChange={(mode) => set(["fallback"], mode === "order" ? undefined : mode)}
        />
      )}
    </fieldset>
  );
}

function Size({ step, set }: { step: Step; set: Set }) {
  const { config } = useEditor();
  const give = (key: string) => (text: string) => set([key], text.trim() ? valueOf(text) : undefined);
  return (
    <>
      <TextField
        label="GPUs"
        value={step.gpus}
        isCode
        placeholder="in place of a template"
        help="A size of its own: 2, or 0.5 for a part of one."
        onChange={give("gpus")}
      />
      <TextField label="Cores" value={step.cpu} isCode placeholder="as many as go with it" onChange={give("cpu")} />
      <TextField
        label="Memory"
        value={step.memory}
        isCode
        placeholder="as much as goes with it: 16GiB"
        onChange={give("memory")}
      />
      <TextField
        label="Resource"
        value={step.resource}
        isCode
        placeholder="found in its pools"
        suggestions={config.resources}
        onChange={(text) => set(["resource"], text.trim() || undefined)}
      />
      <TextList
        label="Pools"
        values={step.pools}
        suggestions={config.pools}
        placeholder="as the project prefers"
        help="Where a place is found, the best first."
        onChange={(values) => set(["pools"], values)}
      />
    </>
  );
}
