"""Which datasets are on this machine: listed, waited for."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from nearline.cli.output import printable
from nearline.cli.session import Session, session_of
from nearline.errors import Failed

WaitAtMost = Annotated[
    float | None, typer.Option("--timeout", "-t", min=0, metavar="SECONDS", help="Give up waiting after.")
]

_PAUSE_S = 1.0


def scan(context: typer.Context) -> None:
    """List the linked folders here and up to three folders below."""
    from nearline.resources.folders import list_folders  # noqa: PLC0415 (brings the transfer, which --help must not)

    session = session_of(context)
    session.out.is_json |= session.is_cnvrg
    folders, rows = [], []
    for folder in list_folders(Path.cwd()):
        try:
            rows.append((folder.reference.dataset, folder.branch, (folder.base or "-")[:8], str(folder.root)))
            folders.append(folder)
        except Failed as error:  # its link is damaged; the others are not
            session.out.warn(printable(error.message))
    empty = "No folder here or below is linked to a dataset."
    session.out.table(folders, ("DATASET", "BRANCH", "COMMIT", "FOLDER"), rows, empty=empty)


def block(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAMES", help="Folders of clones here, or inputs of this job.")],
    timeout: WaitAtMost = None,
) -> None:
    """Wait until datasets are here: cloned, or inputs of this job."""
    session = session_of(context)
    wait_until_here(session, [Path(name) for name in names], timeout_s=timeout)
    session.out.done(f"Here: {', '.join(map(printable, names))}.")


def wait_until_here(
    session: Session,
    folders: Sequence[Path],
    *,
    timeout_s: float | None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return once all folders are whole clones or inputs of this job. Raises Failed after `timeout_s`."""
    started, is_told = time.monotonic(), False
    while missing := [str(folder) for folder in folders if not _is_here(folder)]:
        text = ", ".join(map(printable, missing))
        if timeout_s is not None and time.monotonic() - started >= timeout_s:
            raise Failed(
                f"Not here after {timeout_s:g} s: {text}.",
                code="client.not_here",
                hint="`nearline data clone` brings a dataset here; `nearline data scan` lists those that are.",
            )
        if not is_told:
            session.out.note(f"Waiting for {text}.")
            is_told = True
        sleep(_PAUSE_S)


def _is_here(folder: Path) -> bool:
    from nearline.transfer.local.workspace import Workspace  # noqa: PLC0415 (only here)

    inputs = os.environ.get("NEARLINE_DATA")
    if inputs and not folder.is_absolute() and (Path(inputs) / folder).exists():
        return True  # a job starts when its inputs are there
    workspace = Workspace(folder)
    if workspace.is_linked:
        # The commit is noted when the last file of it is in place.
        return workspace.state.commit is not None
    if folder.is_dir() and any(folder.iterdir()):
        raise Failed(
            f"'{printable(str(folder))}' is linked to no dataset, so nothing says whether it is whole.",
            code="client.not_linked",
            hint="Clone without --read; what was cloned so can be waited for.",
        )
    return False
