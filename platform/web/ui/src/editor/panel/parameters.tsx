// The parameters of a step: one value, a list of values, or a range; lists and ranges multiply the step.

import { useState } from "react";
import { formatCount } from "../../format.ts";
import { useEditor } from "../model/editor.ts";
import { SelectField, SmallButton, TextField } from "./fields.tsx";
import { type Axis, type Range, type Step, triesOf, type Value } from "../model/flow.ts";
import * as patches from "../model/patches.ts";
import type { Set } from "./step.tsx";
import { textOf, textsOf, valueOf, valuesOf } from "../model/values.ts";

const KINDS = [
  ["value", "value"],
  ["list", "grid"],
  ["range", "range"],
] as const;
const RANGE: Range = { type: "float", min: 0, max: 1, steps: 3, scale: "linear" };

export function ParameterRows({ step, set }: { step: Step; set: Set }) {
  const { store } = useEditor();
  const rows: [string, Value | Axis][] = [...Object.entries(step.parameters), ...Object.entries(step.grid)];
  const tries = triesOf(step);
  const [fresh, setFresh] = useState(""); // the one whose value is typed next
  const [turned, setTurned] = useState(""); // the one that moved as its kind was changed, and that kind
  const isAxis = (name: string) => name in step.grid;
  const change = (name: string, kind: string, content: Value | Axis) => {
    store.edit((document) => {
      patches.setStep(document, step.name, [isAxis(name) ? "grid" : "parameters", name], undefined);
      const [key, value] = converted(kind, content);
      patches.setStep(document, step.name, [key, name], value);
    });
    setFresh("");
    setTurned(`${name} ${kind}`);
  };
  return (
    <fieldset className="group">
      <legend>
        Parameters {Number.isFinite(tries) && tries !== 1 && <span className="tag">{formatCount(tries)} runs</span>}
      </legend>
      {rows.map(([name, content], index) => {
        const kind = !isAxis(name) ? "value" : Array.isArray(content) ? "list" : "range";
        const key = isAxis(name) ? "grid" : "parameters";
        return (
          <div className="parameter" key={`${key} ${index}`}>
            <div className="entry">
              <TextField
                label={`Parameter ${index + 1}`}
                isLabelHidden
                isCode
                isLate
                value={name}
                onChange={(text) =>
                  store.edit((document) =>
                    patches.renameKey(document, ["steps", step.index, key], name, text.trim() || name),
                  )
                }
              />
              {kind !== "range" && (
                <TextField
                  label={`${kind === "list" ? "Values" : "Value"} of ${name}`}
                  isLabelHidden
                  isCode
                  isLate
                  focusKey={name === fresh ? name : ""}
                  value={Array.isArray(content) ? textsOf(content) : textOf(content as Value)}
                  placeholder={kind === "list" ? "0.1, 0.01" : ""}
                  onChange={(text) =>
                    kind === "list"
                      ? valuesOf(text).length > 0 && set(["grid", name], valuesOf(text))
                      : set(["parameters", name], valueOf(text))
                  }
                />
              )}
              <SelectField
                label={`Kind of ${name}`}
                isLabelHidden
                value={kind}
                options={KINDS}
                focusKey={turned === `${name} ${kind}` ? turned : ""}
                onChange={(next) => change(name, next, content)}
              />
              <SmallButton icon="x" label={`Remove ${name}`} onClick={() => set([key, name], undefined)} />
            </div>
            {kind === "range" && <RangeFields name={name} range={content as Range} set={set} />}
          </div>
        );
      })}
      <TextField
        label="Add a parameter"
        isLabelHidden
        isCode
        isLate
        value=""
        placeholder="add a parameter"
        onChange={(text, isEntered) => {
          if (!text.trim()) return;
          set(["parameters", text.trim()], "");
          setFresh(isEntered ? text.trim() : "");
        }}
      />
    </fieldset>
  );
}

function RangeFields({ name, range, set }: { name: string; range: Range; set: Set }) {
  const number = (key: "min" | "max" | "steps", label: string) => (
    <label className="small">
      {label}
      <TextField
        label={`${label} of ${name}`}
        isLabelHidden
        isCode
        isLate
        value={Number.isFinite(range[key]) ? String(range[key]) : ""}
        onChange={(text) => set(["grid", name, key], valueOf(text))}
      />
    </label>
  );
  return (
    <div className="range">
      {number("min", "from")}
      {number("max", "below")}
      {number("steps", "steps")}
      <SelectField
        label={`Numbers of ${name}`}
        isLabelHidden
        value={range.type}
        options={[
          ["float", "numbers"],
          ["integer", "whole"],
        ]}
        onChange={(type) => set(["grid", name, "type"], type === "float" ? undefined : type)}
      />
      <SelectField
        label={`Scale of ${name}`}
        isLabelHidden
        value={range.scale}
        options={[
          ["linear", "linear"],
          ["log", "log"],
        ]}
        onChange={(scale) => set(["grid", name, "scale"], scale === "linear" ? undefined : scale)}
      />
    </div>
  );
}

function converted(kind: string, content: Value | Axis): ["parameters" | "grid", unknown] {
  const isList = Array.isArray(content);
  const first: Value = isList ? (content[0] ?? "") : typeof content === "object" ? content.min : content;
  if (kind === "value") return ["parameters", first];
  if (kind === "list") return ["grid", isList ? content : [first]];
  const { min, max, steps } = RANGE;
  return ["grid", typeof first === "number" ? { min: first, max: first + 1, steps } : { min, max, steps }];
}
