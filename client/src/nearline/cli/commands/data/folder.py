"""A folder on this machine that is linked to a dataset: made, synced, looked at."""

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm
from nearline.cli.commands.data.presence import WaitAtMost, wait_until_here
from nearline.cli.commands.data.target import Ref, get_linked_folder, linked_folder, target_of
from nearline.cli.group import accepts
from nearline.cli.options import Message, Yes
from nearline.cli.output import printable
from nearline.cli.progress import progress_of
from nearline.cli.session import Session, session_of
from nearline.errors import Conflict, Failed, NotFound
from nearline.resources.references import Reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nearline.resources.folders import Folder, Outcome

Force = Annotated[bool, typer.Option("--force", "-f", help="Make the dataset what this folder is, whatever is there.")]
NewBranch = Annotated[bool, typer.Option("--new_branch", "-nb", help="Put the commit on a new branch.")]
AllowCollisions = Annotated[
    bool, typer.Option("--allow-collisions", help="Commit names that differ only in case or Unicode form.")
]
Parallel = Annotated[int | None, typer.Option("--parallel", "-p", min=1, max=64, help="Transfers at the same time.")]
Commit = Annotated[str | None, typer.Option("--commit", "-c", help="Get this commit instead of the newest.")]

_LISTED = 20


@accepts("--public", "--bucket/-b=")
def init(
    context: typer.Context,
    title: Annotated[str | None, typer.Option("--title", "-t", help="Its name; else that of the folder.")] = None,
    project: Annotated[str | None, typer.Option("--project", "-p", help="Whose it is.")] = None,
    branch: Annotated[str, typer.Option(help="Branch that this folder follows.")] = "main",
    *,
    yes: Yes = False,
) -> None:
    """Make a dataset of this folder."""
    session = session_of(context)
    if not tell_if_linked(session):
        if Path.cwd() in {Path("/"), Path.home()}:
            confirm(f"Make a dataset of all that is in '{Path.cwd()}'?", yes=yes, can_be_undone=True)
        make_dataset(session, title or Path.cwd().name, project=project, branch=branch)


def tell_if_linked(session: Session) -> bool:
    """Return whether this folder is linked, and then say to what."""
    folder = linked_folder()
    if folder is None or folder.root != Path.cwd():
        return False
    session.out.note(f"Directory is already linked to {folder.reference.dataset}")
    _tell_link(session, folder)
    return True


def make_dataset(session: Session, title: str, *, project: str | None, branch: str = "main") -> None:
    """Make a dataset and link this folder to it."""
    name = slug(title)
    target = Reference(session.project(project), name)
    session.client().folders.require_linkable(Path.cwd())
    made = session.client().datasets.create(target, description="" if title in {name, Path.cwd().name} else title)
    _tell_link(session, session.client().folders.link(Path.cwd(), target, branch=branch), url=made.url)


def link(
    context: typer.Context,
    reference: Ref,
    branch: Annotated[str | None, typer.Option(help="Branch to follow; else the default one.")] = None,
) -> None:
    """Link this folder to a dataset that exists. No file changes; the next sync brings both together."""
    session = session_of(context)
    folder = linked_folder()
    target = target_of(session, reference)
    if folder is not None and folder.root == Path.cwd() and folder.reference.dataset != target.dataset:
        raise Conflict(
            f"This folder is linked to {folder.reference.dataset}.",
            hint=f"`nearline data set --url {target}` links it to that one instead.",
        )
    dataset = session.client().datasets.get(target)
    follows = branch or target.ref or dataset.default_branch
    _tell_link(session, session.client().folders.link(Path.cwd(), target, branch=follows), url=dataset.url)


def set_url(
    context: typer.Context,
    url: Annotated[str, typer.Option("--url", metavar="REF|URL", help="The dataset to follow from now on.")],
) -> None:
    """Link this folder to another dataset, as cnvrg does.

    No file changes; the next sync brings both together.
    """
    session = session_of(context)
    folder = get_linked_folder()
    target = target_of(session, url)
    dataset = session.client().datasets.get(target)
    follows = target.ref or dataset.default_branch
    _tell_link(session, session.client().folders.link(folder.root, target, branch=follows), url=dataset.url)


@accepts("--verbose/-v", "--all", "--tags=", "--chunk_size=", "--initial")
def sync(
    context: typer.Context,
    message: Message = "",
    parallel: Parallel = None,
    commit: Annotated[str | None, typer.Option("--commit", "-c", help="Only get this commit; make none.")] = None,
    *,
    force: Force = False,
    new_branch: NewBranch = False,
    allow_collisions: AllowCollisions = False,
) -> None:
    """Bring folder and dataset together, as one commit.

    Fetches what others committed, merges, and uploads what is new. Without a change there is no commit.
    """
    session = session_of(context)
    folder = get_linked_folder()
    folders = session.client().folders
    with progress_of(session.out) as progress:
        if commit is not None:
            # A commit made from here would go on from the newest one, so going back makes none.
            outcome = folders.download(folder, ref=commit, parallel=parallel, progress=progress)
        else:
            outcome = folders.sync(
                folder,
                message=message,
                force=force,
                new_branch=new_branch,
                allow_collisions=allow_collisions,
                parallel=parallel,
                progress=progress,
            )
    _tell_outcome(session, outcome, finished="Data sync finished")


@accepts("--verbose/-v", "--sync/-s", "--tags=", "--chunk=", "--chunk_size=")
def upload(
    context: typer.Context,
    message: Message = "",
    parallel: Parallel = None,
    *,
    force: Force = False,
    new_branch: NewBranch = False,
    allow_collisions: AllowCollisions = False,
) -> None:
    """Commit what changed here, without fetching. Refused when someone committed meanwhile."""
    session = session_of(context)
    folder = get_linked_folder()
    with progress_of(session.out) as progress:
        outcome = session.client().folders.upload(
            folder,
            message=message,
            force=force,
            new_branch=new_branch,
            allow_collisions=allow_collisions,
            parallel=parallel,
            progress=progress,
        )
    _tell_outcome(session, outcome, finished="Upload finished")


@accepts("--verbose/-v", "--all", "--sync/-s", "--new_branch/-nb")
def download(context: typer.Context, commit: Commit = None, parallel: Parallel = None) -> None:
    """Fetch what others committed. Files that changed on both sides stay, with the server's beside them."""
    session = session_of(context)
    folder = get_linked_folder()
    with progress_of(session.out) as progress:
        outcome = session.client().folders.download(folder, ref=commit, parallel=parallel, progress=progress)
    _tell_outcome(session, outcome, finished="Download finished")


def status(context: typer.Context) -> None:
    """Show what changed here, and whether others committed."""
    session = session_of(context)
    folder = get_linked_folder()
    changes = session.client().folders.status(folder)
    tell_skipped(session, changes.skipped)
    if session.out.is_json:
        session.out.json(changes)
        return
    for mark, paths in (("+", changes.added), ("~", changes.changed), ("-", changes.removed)):
        for path in paths:
            session.out.line(printable(path) if session.out.is_quiet else f"{mark} {printable(path)}")
    session.out.note(
        f"{folder.reference.dataset} on {folder.branch}, at {folder.base[:8] if folder.base else 'no commit'}"
    )
    if changes.is_behind:
        session.out.note("Others have committed since; `nearline data sync` brings it here.")
    if not (changes.added or changes.changed or changes.removed):
        session.out.note("Nothing changed here.")


def verify(
    context: typer.Context,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A linked folder; else this one.")] = Path(),
    timeout: WaitAtMost = None,
) -> None:
    """Compare every file of a linked folder with its commit.

    With --timeout it waits for a clone that is still under way.
    """
    from nearline.resources.folders import get_folder  # noqa: PLC0415 (brings the transfer, which --help must not)

    session = session_of(context)
    if timeout is not None:
        wait_until_here(session, [directory], timeout_s=timeout)
    if not directory.is_dir():
        raise NotFound(f"There is no folder '{printable(str(directory))}' here.")
    folder = get_folder(directory)
    with progress_of(session.out) as progress:
        findings = session.client().folders.verify(folder, progress=progress)
    if session.out.is_json:
        session.out.json(findings)
    else:
        for word, paths in (("differs", findings.changed), ("missing", findings.removed), ("extra", findings.added)):
            for path in paths:
                session.out.line(f"{word}: {printable(path)}")
    if findings.changed or findings.removed:
        count = len(findings.changed) + len(findings.removed)
        raise Failed(
            f"{formats.count(count, 'file')} {'differs' if count == 1 else 'differ'} from {folder.base}.",
            code="datasets.not_verified",
            hint="`nearline data sync` commits what you changed. To get a file back, delete it here, then run "
            "`nearline data download --commit COMMIT`.",
        )
    files = formats.count(findings.files - len(findings.added), "file")
    extra = f"; {len(findings.added):,} more not in it" if findings.added else ""
    session.out.done(f"All {files} are those of {(folder.base or '')[:8]}{extra}.")


def slug(title: str) -> str:
    """Make a name of a title: lower-case letters without accents, digits and dashes, with a letter first."""
    plain = "".join(char for char in unicodedata.normalize("NFKD", title.lower()) if not unicodedata.combining(char))
    name = "-".join("".join(char if char.isascii() and char.isalnum() else " " for char in plain).split())
    return (name if name[:1].isalpha() else f"data-{name}")[:63].rstrip("-")


def _tell_link(session: Session, folder: "Folder", *, url: str | None = None) -> None:
    session.out.record(
        folder,
        [
            ("Dataset", folder.reference.dataset),
            ("Branch", folder.branch),
            ("Folder", str(folder.root)),
            ("Page", url),
        ],
    )


def tell_skipped(session: Session, skipped: "Sequence[tuple[str, str]]") -> None:
    """Say what cannot be carried."""
    for path, why in skipped[:_LISTED]:
        session.out.warn(f"Left out: {printable(path)}: {why}")
    if len(skipped) > _LISTED:
        session.out.warn(f"and {len(skipped) - _LISTED} more were left out")


def tell_healing(session: Session, outcome: "Outcome") -> None:
    """Say what of the store was damaged, and what became of it."""
    if outcome.packs_healed:
        packs = formats.count(outcome.packs_healed, "damaged pack")
        session.out.done(f"Sent {packs} of the store again: the files in them are whole now.")
    for path in outcome.damaged[:_LISTED]:
        session.out.warn(f"Damaged in the store, and no good copy is here: {printable(path)}")
    if len(outcome.damaged) > _LISTED:
        session.out.warn(f"and {len(outcome.damaged) - _LISTED} more such files: nearline data damage")


def _tell_outcome(session: Session, outcome: "Outcome", *, finished: str) -> None:
    out = session.out
    for path in outcome.conflicts[:_LISTED]:
        out.warn(f"Changed on both sides, yours is kept: {printable(path)}; the server's is {printable(path)}.conflict")
    if len(outcome.conflicts) > _LISTED:
        out.warn(f"and {len(outcome.conflicts) - _LISTED} more such files")
    tell_skipped(session, outcome.skipped)
    tell_healing(session, outcome)
    if out.is_json or out.is_quiet:
        out.record(outcome, [("Commit", outcome.commit_id or "")])
        return
    if outcome.is_up_to_date:
        out.done("Dataset is up to date")
        return
    if outcome.commit is not None:
        made = outcome.commit
        out.line(f"{made.short}  +{made.added} -{made.removed} ~{made.changed}  {made.message}".rstrip())
    out.note(
        f"  sent {formats.count(outcome.files_uploaded, 'file')} ({formats.size(outcome.bytes_uploaded)}), "
        f"received {formats.count(outcome.files_downloaded, 'file')} ({formats.size(outcome.bytes_downloaded)})"
        + (f", removed {formats.count(outcome.files_removed, 'file')} here" if outcome.files_removed else "")
    )
    out.done(finished)
