"""Which dataset a command means: the one that is named, or the one that this folder is linked to."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearline.cli.session import Session
from nearline.errors import InvalidRequest
from nearline.resources.references import Reference, TreeReference, is_output, parse_output, parse_reference

if TYPE_CHECKING:
    from nearline.resources.folders import Folder

HERE = "."
_NOT_LINKED = "client.not_linked"

Ref = Annotated[
    str, typer.Argument(metavar="REF|URL", help="project/dataset[@ref], its address, or `.` for this folder's.")
]
TreeRef = Annotated[
    str,
    typer.Argument(
        metavar="REF|URL|OUTPUT",
        help="project/dataset[@ref], its address, `.` for this folder's, or an output: run:RUN/STEP or job:NAME.",
    ),
]
DatasetOption = Annotated[str | None, typer.Option("--dataset", metavar="REF", help="A dataset; else this folder's.")]


def linked_folder() -> "Folder | None":
    """Return the linked folder that the command runs in, if any."""
    from nearline.resources.folders import find_folder  # noqa: PLC0415 (brings the transfer, which --help must not)

    return find_folder(Path.cwd())


def get_linked_folder() -> "Folder":
    """Return the linked folder that the command runs in. Raises InvalidRequest when it is none."""
    from nearline.resources.folders import get_folder  # noqa: PLC0415 (brings the transfer, which --help must not)

    return get_folder(Path.cwd())


def target_of(session: Session, text: str, *, ref: str | None = None) -> Reference:
    """Return what a reference means; `ref` replaces the branch, tag or commit that it names."""
    if text == HERE:
        target = get_linked_folder().reference
        return Reference(target.project, target.name, ref or target.ref)
    # The server is asked for the project only where the name needs one.
    name = text.partition("@")[0]
    project = session.project() if name and "/" not in name else None
    target = parse_reference(text, project=project, url=session.settings().url)
    return Reference(target.project, target.name, ref or target.ref)


def dataset_or_here(session: Session, dataset: str | None, *, ref: str | None = None) -> Reference:
    """Return what `--dataset` names, else what this folder is linked to."""
    try:
        return target_of(session, dataset or HERE, ref=ref)
    except InvalidRequest as error:
        if error.code == _NOT_LINKED:
            error.hint = f"Name a dataset: `--dataset PROJECT/NAME`. {error.hint}"
        raise


def tree_of(session: Session, text: str, *, ref: str | None = None) -> TreeReference:
    """Return what has files under this name: a commit of a dataset, or an output. Raises InvalidRequest."""
    if not is_output(text):
        return target_of(session, text, ref=ref)
    if ref:
        raise InvalidRequest(f"'{text}' is an output and has no commits.", hint="Leave out --commit.")
    return parse_output(text)
