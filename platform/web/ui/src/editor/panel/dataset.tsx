// A dataset on the canvas: which one, and how each step that reads it gets it.

import { Icon } from "../../graph/icon.tsx";
import * as actions from "../model/actions.ts";
import { useChosen, useEditor } from "../model/editor.ts";
import { SelectField, SmallButton, Switch, TextField } from "./fields.tsx";
import * as patches from "../model/patches.ts";
import { whyNot } from "../model/rules.ts";

export function DatasetPanel({ id }: { id: string }) {
  const editor = useEditor();
  const flow = useChosen(({ flow }) => flow);
  const reference = actions.referenceOf(id);
  const [name = "", version = ""] = reference.split("@");
  const readers = flow.steps.filter(({ data }) => data.some(({ dataset }) => dataset === reference));
  const others = flow.steps.filter((step) => step.name && whyNot(flow, id, step.name) === null);
  const detail = editor.config.datasets.find((each) => each.name === name)?.detail;
  return (
    <>
      <header>
        <Icon name="database" />
        <h2>{name.split("/")[1] ?? name}</h2>
        <SmallButton icon="trash" label={`Remove ${reference}`} onClick={() => actions.remove(editor, [id])} />
      </header>
      <TextField
        label="Dataset"
        isCode
        isLate
        value={name}
        suggestions={editor.config.datasets}
        help={detail ?? "project/name"}
        onChange={(text) => actions.replaceDataset(editor, reference, version ? `${text.trim()}@${version}` : text)}
      />
      <TextField
        label="Branch, tag or commit"
        isCode
        isLate
        value={version}
        placeholder="the newest of the default branch"
        onChange={(text) => actions.replaceDataset(editor, reference, text.trim() ? `${name}@${text.trim()}` : name)}
      />
      <fieldset className="group">
        <legend>Read by</legend>
        {readers.map((step) => {
          const index = step.data.findIndex(({ dataset }) => dataset === reference);
          return (
            <div className="entry" key={step.name}>
              <span className="mono">{step.name}</span>
              <Switch
                label="cached"
                value={step.data[index]?.cached ?? true}
                onChange={(isCached) =>
                  editor.store.edit((document) =>
                    patches.setStep(document, step.name, ["data", index, "cached"], isCached),
                  )
                }
              />
              <SmallButton
                icon="x"
                label={`${step.name} no longer reads it`}
                onClick={() => actions.disconnect(editor, id, step.name)}
              />
            </div>
          );
        })}
        {others.length > 0 && (
          <SelectField
            label="Let a step read it"
            isLabelHidden
            value=""
            options={[["", "add a step…"], ...others.map((step) => [step.name, step.name] as const)]}
            onChange={(step) => step && actions.connect(editor, id, step)}
          />
        )}
        {readers.length === 0 && others.length === 0 && <p className="sub small">There is no step yet.</p>}
      </fieldset>
    </>
  );
}
