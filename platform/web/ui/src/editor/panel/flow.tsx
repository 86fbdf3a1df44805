// The flow itself: its name, what it is for, and the typed parameters that a run is given.

import { useState } from "react";
import { Icon } from "../../graph/icon.tsx";
import { useChosen, useEditor } from "../model/editor.ts";
import { SelectField, SmallButton, TextField } from "./fields.tsx";
import type { Parameter } from "../model/flow.ts";
import * as patches from "../model/patches.ts";
import { textOf, textsOf, typeOf, valueOf, valuesOf } from "../model/values.ts";

const TYPES = [
  ["float", "number"],
  ["int", "whole number"],
  ["str", "text"],
  ["bool", "true or false"],
] as const;

export function FlowPanel() {
  const { store } = useEditor();
  const flow = useChosen(({ flow }) => flow);
  const set = (path: readonly string[], value: unknown) =>
    store.edit((document) => patches.setIn(document, path, value), { burst: path.join(".") });
  const names = Object.keys(flow.parameters);
  // The one whose default is typed next: until somebody chooses its type, it is that of the default.
  const [fresh, setFresh] = useState("");
  const [isAdding, setIsAdding] = useState(false); // by Enter: the keyboard goes on to the default
  return (
    <>
      <header>
        <Icon name="sitemap" />
        <h2>Flow</h2>
      </header>
      <TextField
        label="Name"
        isCode
        isLate
        value={flow.name}
        onChange={(text) => text.trim() && set(["flow"], text.trim())}
      />
      <TextField label="Title" value={flow.title} onChange={(text) => set(["title"], text || undefined)} />
      <TextField
        label="Description"
        rows={2}
        value={flow.description}
        onChange={(text) => set(["description"], text || undefined)}
      />
      <fieldset className="group">
        <legend>Parameters of a run</legend>
        {names.map((name, index) => (
          <ParameterCard
            key={index}
            name={name}
            parameter={flow.parameters[name] as Parameter}
            set={set}
            rename={(now) => {
              store.edit((document) => patches.renameKey(document, ["parameters"], name, now));
              if (name === fresh) setFresh(now);
            }}
            setTyped={(text) =>
              store.edit((document) => {
                patches.setIn(document, ["parameters", name, "type"], typeOf(text));
                patches.setIn(document, ["parameters", name, "default"], valueOf(text));
              })
            }
            isFresh={name === fresh}
            isFocused={name === fresh && isAdding}
            settle={() => setFresh("")}
          />
        ))}
        <TextField
          label="Add a parameter of the flow"
          isLabelHidden
          isCode
          isLate
          value=""
          placeholder="add a parameter"
          onChange={(text, isEntered) => {
            const name = text.trim();
            if (!name || name in flow.parameters) return;
            set(["parameters", name], { type: "int", default: 0 });
            setFresh(name);
            setIsAdding(isEntered);
          }}
        />
        <span className="help">
          Commands get them as <code>{"${{ parameters.NAME }}"}</code>.
        </span>
      </fieldset>
    </>
  );
}

function ParameterCard({
  name,
  parameter,
  set,
  rename,
  setTyped,
  isFresh,
  isFocused,
  settle,
}: {
  name: string;
  parameter: Parameter;
  set: (path: readonly string[], value: unknown) => void;
  rename: (name: string) => void;
  setTyped: (text: string) => void;
  isFresh: boolean;
  isFocused: boolean;
  settle: () => void;
}) {
  const at = (key: string) => ["parameters", name, key];
  const setDefault = (text: string) => {
    if (!text.trim()) set(at("default"), undefined);
    else if (isFresh) setTyped(text);
    else set(at("default"), parameter.type === "str" ? text : valueOf(text));
  };
  return (
    <div className="card-entry">
      <div className="entry">
        <TextField
          label={`Name of ${name}`}
          isLabelHidden
          isCode
          isLate
          value={name}
          onChange={(text) => text.trim() && rename(text.trim())}
        />
        <SelectField
          label={`Type of ${name}`}
          isLabelHidden
          value={parameter.type}
          options={TYPES}
          onChange={(type) => {
            settle();
            set(at("type"), type);
          }}
        />
        <SmallButton icon="x" label={`Remove ${name}`} onClick={() => set(["parameters", name], undefined)} />
      </div>
      <TextField
        label={`Default of ${name}`}
        isLabelHidden
        isCode
        isLate
        value={textOf(parameter.default)}
        placeholder="no default: required for every run"
        focusKey={isFocused ? name : ""}
        onChange={setDefault}
      />
      <TextField
        label={`Choices of ${name}`}
        isLabelHidden
        isCode
        isLate
        value={textsOf(parameter.choices)}
        placeholder="any value, or: a, b, c"
        onChange={(text) => set(at("choices"), valuesOf(text))}
      />
      <TextField
        label={`Help for ${name}`}
        isLabelHidden
        value={parameter.help}
        placeholder="what it is for"
        onChange={(text) => set(at("help"), text || undefined)}
      />
    </div>
  );
}
