// Names with texts: the environment of a step.

import { useState } from "react";
import { useEditor } from "../model/editor.ts";
import { SmallButton, TextField } from "./fields.tsx";
import type { Step } from "../model/flow.ts";
import * as patches from "../model/patches.ts";
import type { Set } from "./step.tsx";

export function Pairs({
  label,
  keys,
  values,
  path,
  step,
  set,
}: {
  label: string;
  keys: string;
  values: Readonly<Record<string, string>>;
  path: readonly string[];
  step: Step;
  set: Set;
}) {
  const { store } = useEditor();
  const entries = Object.entries(values);
  const [fresh, setFresh] = useState(""); // the one whose value is typed next
  return (
    <fieldset className="group">
      <legend>{label}</legend>
      {entries.map(([key, value], index) => (
        <div className="entry pair" key={index}>
          <TextField
            label={`${keys} ${index + 1}`}
            isLabelHidden
            isCode
            isLate
            value={key}
            onChange={(name) =>
              store.edit((document) =>
                patches.renameKey(document, ["steps", step.index, ...path], key, name.trim() || key),
              )
            }
          />
          <TextField
            label={`Value of ${key}`}
            isLabelHidden
            isCode
            value={value}
            focusKey={key === fresh ? key : ""}
            onChange={(text) => set([...path, key], text)}
          />
          <SmallButton icon="x" label={`Remove ${key}`} onClick={() => set([...path, key], undefined)} />
        </div>
      ))}
      <TextField
        label={`Add a ${keys.toLowerCase()}`}
        isLabelHidden
        isCode
        isLate
        value=""
        placeholder={`add a ${keys.toLowerCase()}`}
        onChange={(text, isEntered) => {
          if (!text.trim()) return;
          set([...path, text.trim()], "");
          setFresh(isEntered ? text.trim() : "");
        }}
      />
    </fieldset>
  );
}
