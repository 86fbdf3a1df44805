// What can be added: a dataset, a command, and steps that were written before. By drag, double click, or Enter.

import { type DragEvent, type MouseEvent, useEffect, useState } from "react";
import { Icon } from "../../graph/icon.tsx";
import * as actions from "../model/actions.ts";
import { call } from "../model/api.ts";
import { type Editor, useEditor } from "../model/editor.ts";
import type { Raw } from "../model/patches.ts";
import type { Place } from "../model/placing.ts";

type Shelf = { flow: string; title: string; is_example: boolean; needs_code: boolean; steps: Raw[] };
type Add = (editor: Editor, at?: Place) => void;

const KIND = "application/x-nearline";
const MOST_PER_SHELF = 6; // the search finds the rest
const MOST_SHOWN = 60;
let carried: Add | null = null;

// What is dropped: the palette's own item that is being dragged.
export function dropped(transfer: DataTransfer): Add | null {
  return transfer.types.includes(KIND) ? carried : null;
}

export function Palette() {
  const { config, drafting } = useEditor();
  const [shelves, setShelves] = useState<Shelf[]>([]);
  const [wanted, setWanted] = useState("");
  useEffect(() => {
    const path = `/flows/library?project=${encodeURIComponent(config.project)}`;
    void call<{ shelves: Shelf[] }>("GET", path).then(
      (library) => setShelves(library.shelves),
      () => undefined,
    );
  }, [config]);
  const others = shelves.filter(({ flow, is_example }) => is_example || flow !== drafting.place.key);
  const items = others.flatMap((shelf) => shelf.steps.map((step) => ({ shelf, step })));
  const found = items.filter(({ shelf, step }) =>
    `${step["title"] ?? ""} ${step["name"]} ${shelf.flow}`.toLowerCase().includes(wanted.toLowerCase()),
  );
  return (
    <section className="palette" aria-label="Add a step">
      <h2>Add a step</h2>
      <Item icon="database" title="Dataset" add={(editor, at) => actions.addDataset(editor, at)} />
      <Item icon="terminal-2" title="Command" add={(editor, at) => actions.addCommand(editor, at)} />
      <h2>Library</h2>
      {items.length > 6 && (
        <input
          type="search"
          className="form-control"
          placeholder="Find a step"
          aria-label="Find a step in the library"
          value={wanted}
          onChange={(event) => setWanted(event.target.value)}
        />
      )}
      {items.length === 0 && <p className="sub small">Steps of this project’s flows are listed here.</p>}
      {(wanted ? found : found.filter(({ shelf, step }) => shelf.steps.indexOf(step) < MOST_PER_SHELF))
        .slice(0, MOST_SHOWN)
        .map(({ shelf, step }) => (
          <Item
            key={`${shelf.is_example} ${shelf.flow} ${step["name"]}`}
            title={String(step["title"] ?? "") || String(step["name"])}
            detail={`${shelf.is_example ? "example" : "flow"} ${shelf.flow}${shelf.needs_code && !shelf.is_example ? ", without its code" : ""}`}
            add={(editor, at) => addFromShelf(editor, shelf, step, at)}
          />
        ))}
      {wanted && found.length === 0 && <p className="sub small">No step of that name.</p>}
    </section>
  );
}

// The code of an example comes along with a flow that has none; that of another flow stays there.
function addFromShelf(editor: Editor, shelf: Shelf, step: Raw, at?: Place): void {
  if (shelf.is_example && !editor.drafting.example) editor.drafting.example = shelf.flow;
  actions.addStep(editor, step, at);
  if (shelf.needs_code && !shelf.is_example)
    editor.store.say(`'${step["name"]}' runs files that came with ${shelf.flow}; the files are not copied.`);
}

function Item({ title, detail = "", icon, add }: { title: string; detail?: string; icon?: string; add: Add }) {
  const editor = useEditor();
  const onDragStart = (event: DragEvent) => {
    carried = add;
    event.dataTransfer.setData(KIND, title);
    event.dataTransfer.effectAllowed = "copy";
  };
  // A key and a finger add at once; a mouse drags, or clicks twice.
  const onClick = (event: MouseEvent) => {
    const isTouch = event.nativeEvent instanceof PointerEvent && event.nativeEvent.pointerType === "touch";
    if (event.detail === 0 || isTouch) add(editor);
  };
  return (
    <button
      type="button"
      className="palette-item"
      draggable
      title="Drag onto the canvas, double-click, or press Enter"
      onDragStart={onDragStart}
      onClick={onClick}
      onDoubleClick={() => add(editor)}
    >
      {icon && <Icon name={icon} />}
      <span>
        <b>{title}</b>
        {detail && <small>{detail}</small>}
      </span>
    </button>
  );
}
