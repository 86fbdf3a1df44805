// The flow as a table: the same things as on the canvas, for those who do not see or do not want it.

import { formatCount } from "../../format.ts";
import { Icon } from "../../graph/icon.tsx";
import * as actions from "../model/actions.ts";
import { UndoButtons } from "./tools.tsx";
import { useChosen, useEditor } from "../model/editor.ts";
import { triesOf, whereOf } from "../model/flow.ts";
import { countByStep } from "./nodes.ts";
import { SmallButton } from "../panel/fields.tsx";
import { DATASET } from "../model/rules.ts";

export function StepsList() {
  const editor = useEditor();
  const { store, config } = editor;
  const { flow, problems, selection } = useChosen((state) => state);
  const faults = countByStep(problems, flow);
  return (
    <div className="steps-list">
      <div className="row-of">
        <UndoButtons />
      </div>
      <table className="list">
        <caption className="sub small">Steps in the order of the file</caption>
        <thead>
          <tr>
            <th>Step</th>
            <th>Waits for</th>
            <th>Reads</th>
            <th>Runs on</th>
            <th className="num">Times</th>
            <th>Problems</th>
            <td />
          </tr>
        </thead>
        <tbody>
          {flow.steps.map((step) => (
            <tr key={step.index} className={selection.has(step.name) ? "selected" : ""}>
              <td>
                <button
                  type="button"
                  className="btn btn-link strong"
                  aria-pressed={selection.has(step.name)}
                  onClick={() => store.select(step.name)}
                >
                  {step.name || `step ${step.index + 1}`}
                </button>
                {step.title && <div className="sub small">{step.title}</div>}
              </td>
              <td>{step.after.join(", ") || <span className="sub">nothing</span>}</td>
              <td>
                {step.data.map(({ dataset }) => (
                  <button
                    type="button"
                    className="btn btn-link"
                    key={dataset}
                    onClick={() => store.select(DATASET + dataset)}
                  >
                    {dataset}
                  </button>
                ))}
              </td>
              <td className="sub">{whereOf(step, config.default_template)}</td>
              <td className="num">{Number.isFinite(triesOf(step)) ? formatCount(triesOf(step)) : "–"}</td>
              <td>
                {(faults.get(step.name) ?? 0) > 0 && (
                  <span className="pill pending">
                    <Icon name="alert-triangle" />
                    {faults.get(step.name)}
                  </span>
                )}
              </td>
              <td className="acts">
                <SmallButton
                  icon="trash"
                  label={`Remove ${step.name}`}
                  onClick={() => actions.remove(editor, [step.name])}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {flow.steps.length === 0 && <p className="sub">There is no step yet. “Command” adds one.</p>}
    </div>
  );
}
