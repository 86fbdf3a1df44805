// What a step waits for and what it reads.

import * as actions from "../model/actions.ts";
import { useChosen, useEditor } from "../model/editor.ts";
import { SelectField, SmallButton, Switch, TextField } from "./fields.tsx";
import { folderOf, type Step } from "../model/flow.ts";
import * as patches from "../model/patches.ts";
import type { Set } from "./step.tsx";
import { DATASET, whyNot } from "../model/rules.ts";

export function Inputs({ step, set }: { step: Step; set: Set }) {
  const editor = useEditor();
  const flow = useChosen(({ flow }) => flow);
  const parents = flow.steps.filter(({ name }) => name && whyNot(flow, name, step.name) === null);
  return (
    <>
      <fieldset className="group">
        <legend>Waits for</legend>
        {step.after.map((parent, index) => (
          <div className="entry" key={`${parent} ${index}`}>
            <span className="mono">{parent}</span>
            <span className="sub small mono">$NEARLINE_INPUT/{parent}</span>
            <SmallButton
              icon="x"
              label={`Wait for ${parent} no more`}
              onClick={() => actions.disconnect(editor, parent, step.name)}
            />
          </div>
        ))}
        {parents.length > 0 ? (
          <SelectField
            label="Wait for"
            isLabelHidden
            value=""
            options={[["", "add a step…"], ...parents.map(({ name }) => [name, name] as const)]}
            onChange={(name) => name && actions.connect(editor, name, step.name)}
          />
        ) : (
          step.after.length === 0 && <p className="sub small">There is no other step to wait for.</p>
        )}
      </fieldset>
      <fieldset className="group">
        <legend>Reads</legend>
        {step.data.map((input, index) => (
          <div className="card-entry" key={index}>
            <div className="entry">
              <TextField
                label={`Dataset ${index + 1}`}
                isLabelHidden
                isCode
                isLate
                value={input.dataset}
                suggestions={editor.config.datasets}
                onChange={(text) => text.trim() && set(["data", index, "dataset"], text.trim())}
              />
              <SmallButton
                icon="x"
                label={`Read ${input.dataset} no more`}
                onClick={() =>
                  editor.store.edit((document) => patches.setStep(document, step.name, ["data", index], undefined))
                }
              />
            </div>
            <TextField
              label="Folder"
              isCode
              isLate
              value={input.name}
              placeholder={folderOf({ ...input, name: "" })}
              help={`$NEARLINE_DATA/${folderOf(input)}`}
              onChange={(text) => set(["data", index, "name"], text.trim() || undefined)}
            />
            <Switch
              label="Cached"
              value={input.cached}
              help="On: the shared cached copy near the compute. Off: a copy of its own."
              onChange={(isCached) => set(["data", index, "cached"], isCached)}
            />
            {(input.cached || input.start === "early") && (
              <Switch
                label="Start early"
                value={input.start === "early"}
                help="On: once its first files are there, for code that reads with nearline.open_data."
                onChange={(isEarly) => set(["data", index, "start"], isEarly ? "early" : undefined)}
              />
            )}
          </div>
        ))}
        <TextField
          label="Read a dataset"
          isLabelHidden
          isCode
          isLate
          value=""
          placeholder="add a dataset: project/name"
          suggestions={editor.config.datasets}
          onChange={(text) => text.trim() && actions.connect(editor, DATASET + text.trim(), step.name)}
        />
      </fieldset>
    </>
  );
}
