// Where a step may run: its templates, how it chooses among them, and how long to wait at each where their order decides.

import { type DragEvent, useState } from "react";
import { Icon } from "../../graph/icon.tsx";
import { useEditor } from "../model/editor.ts";
import { SelectField, SmallButton, TextField } from "./fields.tsx";
import { type Choice, FALLBACKS, type Step } from "../model/flow.ts";
import type { Set } from "./step.tsx";
import { durationOf } from "../model/values.ts";

export function ComputeList({ step, set }: { step: Step; set: Set }) {
  const { config } = useEditor();
  const [dragged, setDragged] = useState<number | null>(null);
  const choices = step.compute;
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
      {choices.length === 0 && <p className="sub small">{config.default_template}, because none is chosen</p>}
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
      {choices.length > 1 && (
        <SelectField
          label="Choose a template"
          value={step.fallback}
          options={FALLBACKS}
          onChange={(mode) => set(["fallback"], mode === "order" ? undefined : mode)}
        />
      )}
    </fieldset>
  );
}
