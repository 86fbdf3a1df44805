"""Datasets of other tools: taken over from where they lie on this machine, and written as those tools keep them."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nearline.cli import formats
from nearline.cli.commands.data.files import tell_put
from nearline.cli.commands.data.folder import AllowCollisions, Parallel, tell_skipped
from nearline.cli.commands.data.in_place import import_in_place
from nearline.cli.commands.data.target import Ref, target_of
from nearline.cli.options import Message
from nearline.cli.output import printable
from nearline.cli.progress import progress_of
from nearline.cli.session import session_of
from nearline.errors import InvalidRequest


class Source(StrEnum):
    """What can be imported."""

    DVC = "dvc"
    HUGGING_FACE = "hf"
    LFS = "lfs"


class Format(StrEnum):
    """What can be exported."""

    DVC = "dvc"
    HUGGING_FACE = "hf"
    LFS = "lfs"


def import_data(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="dvc|hf|lfs|SOURCE", help="What is imported; with --in-place a source's name.")
    ],
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="The repository or the folder; with --in-place, in the source.")
    ],
    reference: Ref,
    *,
    directory: Annotated[str, typer.Option("--dir", "-d", help="Folder in the dataset.")] = "",
    message: Message = "",
    parallel: Parallel = None,
    only: Annotated[bool, typer.Option("--only", help="The commit holds no other files.")] = False,
    allow_collisions: AllowCollisions = False,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Files stay where they lie; the server reads each once.")
    ] = False,
) -> None:
    """Import the files that another tool keeps, as one commit. A missing dataset is made.

    dvc: what .dvc files and dvc.lock track, from the cache. hf: a folder, or the dataset's folder in the hub's cache;
    its card becomes the description. lfs: the working tree, pointers replaced by their objects. Files are compared
    with the hashes that the tool knows; where one is missing or damaged, nothing is imported.

    --in-place: a folder of a source (`nearline source list`) whose files the dataset refers to.
    `nearline data promote` copies them into the store when that is wanted.
    """
    session = session_of(context)
    target = target_of(session, reference)
    if in_place:
        if only or allow_collisions:
            option = "--only" if only else "--allow-collisions"
            raise InvalidRequest(f"{option} has no meaning with --in-place.")
        import_in_place(session, target, source, path, directory=directory, message=message)
        return
    if source not in set(Source):
        raise InvalidRequest(
            f"'{source}' is none of {', '.join(Source)}.", hint="Add --in-place to import from a source of that name."
        )
    with progress_of(session.out) as progress:
        outcome = session.client().folders.adopt(
            target,
            source,
            path,
            directory=directory,
            message=message or f"Import {source} {path.absolute().name}",
            only=only,
            allow_collisions=allow_collisions,
            parallel=parallel,
            progress=progress,
        )
    tell_put(session, target, outcome)


def export_data(
    context: typer.Context,
    target_format: Annotated[Format, typer.Argument(metavar="dvc|hf|lfs", help="Whose layout to write.")],
    reference: Ref,
    destination: Annotated[Path, typer.Argument(metavar="DEST", help="A new folder.")],
    parallel: Parallel = None,
) -> None:
    """Write a commit as another tool keeps it, into a new folder.

    dvc: a repository with its cache and a .dvc file of the dataset's name. hf: the files with a card, as `load_dataset`
    reads them. lfs: a git repository with one commit, in which git-LFS has the content of all files.
    """
    session = session_of(context)
    target = target_of(session, reference)
    with progress_of(session.out) as progress:
        outcome = session.client().folders.export(
            target, target_format, destination, parallel=parallel, progress=progress
        )
    tell_skipped(session, outcome.skipped)
    if session.out.is_json or session.out.is_quiet:
        session.out.record(outcome, [("Folder", str(destination))])
        return
    session.out.done(
        f"Wrote {target} to {printable(destination)}: {formats.count(outcome.files_downloaded, 'file')}, "
        f"{formats.size(outcome.bytes_downloaded)}"
    )
