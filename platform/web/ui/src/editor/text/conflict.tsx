// Somebody else's text beside one's own: nothing is overwritten, and nothing is lost, before a choice is made.

import { useEffect, useRef, useState } from "react";
import { Icon } from "../../graph/icon.tsx";
import type { Other } from "../model/drafting.ts";
import { useChosen, useEditor } from "../model/editor.ts";
import { type Shown, showBoth } from "./merge_view.ts";

export function Conflict() {
  const { drafting } = useEditor();
  useChosen((state) => state);
  const [isOpen, setOpen] = useState(true);
  const { other, newest } = drafting;
  useEffect(() => setOpen(true), [other]);
  if (!drafting.isOvertaken) return null;
  if (!other) return <Newer number={newest ?? 0} />;
  if (isOpen) return <ConflictDialog other={other} onClose={() => setOpen(false)} />;
  return (
    <div className="note" role="status">
      <b>{other.title} differs from what you wrote.</b>{" "}
      <button type="button" className="btn" onClick={() => setOpen(true)}>
        <Icon name="arrows-diff" />
        Compare both
      </button>
    </div>
  );
}

// Another version was kept while this draft was written. It is told at once, not only when this one is to be kept.
function Newer({ number }: { number: number }) {
  const { drafting } = useEditor();
  return (
    <div className="note" role="status">
      <b>Version {number} was saved while you edited.</b> Your changes began from version {drafting.base}; nothing of
      either is lost.{" "}
      <button type="button" className="btn" onClick={() => void drafting.compareWithNewest()}>
        <Icon name="arrows-diff" />
        Compare both
      </button>
    </div>
  );
}

function ConflictDialog({ other, onClose }: { other: Other; onClose: () => void }) {
  const { store, drafting } = useEditor();
  const dialog = useRef<HTMLDialogElement>(null);
  const host = useRef<HTMLDivElement>(null);
  const shown = useRef<Shown | null>(null);
  useEffect(() => {
    dialog.current?.showModal();
    if (host.current) shown.current = showBoth(host.current, other.text, store.now.text, [other.title, "Yours"], true);
    return () => shown.current?.remove();
  }, [other, store]);
  const keepMine = () =>
    drafting.adopt(other, { text: shown.current?.textOf() ?? store.now.text, layout: store.now.layout });
  const takeOther = () => drafting.adopt(other, { text: other.text, layout: other.layout });
  return (
    <dialog ref={dialog} className="wide-dialog" aria-labelledby="conflict-title" onClose={onClose}>
      <h2 id="conflict-title">
        {other.kind === "version"
          ? `${other.title} was saved while you edited`
          : "This draft was changed in another window"}
      </h2>
      <p className="sub">
        The arrows take single places over into yours. Whichever you choose, undo brings the other back.
      </p>
      <div className="both-titles">
        <b>{other.title}</b>
        <b>Yours</b>
      </div>
      <div className="both" ref={host} />
      <div className="acts">
        <button type="button" className="btn" onClick={() => dialog.current?.close()}>
          Decide later
        </button>
        <button type="button" className="btn" onClick={takeOther}>
          Take {other.kind === "version" ? "theirs" : "that one"}
        </button>
        <button type="button" className="btn btn-primary" onClick={keepMine}>
          Go on with mine
        </button>
      </div>
    </dialog>
  );
}
