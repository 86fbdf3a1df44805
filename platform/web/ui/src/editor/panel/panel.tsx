// The panel beside the canvas: of the selected step or dataset, of several nodes, or of the flow itself.

import { Icon } from "../../graph/icon.tsx";
import * as actions from "../model/actions.ts";
import { copySelected } from "../model/clipboard.ts";
import { useChosen, useEditor } from "../model/editor.ts";
import { DatasetPanel } from "./dataset.tsx";
import { FlowPanel } from "./flow.tsx";
import { StepPanel } from "./step.tsx";
import { isDataset } from "../model/rules.ts";

export function Panel() {
  const { config } = useEditor();
  const flow = useChosen(({ flow }) => flow);
  const selection = useChosen(({ selection }) => selection);
  const fault = useChosen(({ fault }) => fault);
  const [only = "", ...others] = selection;
  const step = flow.steps.find(({ name }) => name === only);
  return (
    <section className="panel-side" aria-label="Properties">
      <fieldset disabled={fault !== null || flow.isForeign || !config.may_write} className="plain-set">
        {others.length > 0 || only.includes(">") ? (
          <SelectionPanel />
        ) : step ? (
          <StepPanel key={step.index} step={step} />
        ) : isDataset(only) ? (
          <DatasetPanel key={only} id={only} />
        ) : (
          <FlowPanel />
        )}
      </fieldset>
    </section>
  );
}

function SelectionPanel() {
  const editor = useEditor();
  const selection = useChosen(({ selection }) => selection);
  const nodes = [...selection].filter((id) => !id.includes(">"));
  const arrows = selection.size - nodes.length;
  const words = [
    nodes.length && `${nodes.length} nodes`,
    arrows && (arrows === 1 ? "1 arrow" : `${arrows} arrows`),
  ].filter(Boolean);
  return (
    <>
      <header>
        <h2>{words.join(" and ")} selected</h2>
      </header>
      <div className="row-of">
        {nodes.length > 0 && (
          <button
            type="button"
            className="btn"
            onClick={() => void navigator.clipboard?.writeText(copySelected(editor))}
          >
            <Icon name="copy" />
            Copy
          </button>
        )}
        <button type="button" className="btn" onClick={() => actions.removeSelected(editor)}>
          <Icon name="trash" />
          Remove
        </button>
      </div>
    </>
  );
}
