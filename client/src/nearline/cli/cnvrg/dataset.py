"""`cnvrg dataset`: what cnvrg's second program calls the commands of `nearline data`, with its options."""

from pathlib import Path
from typing import Annotated

import typer

from nearline.cli.asking import confirm
from nearline.cli.commands.data import caches, deletion, files, folder, presence
from nearline.cli.commands.data.queries import with_query
from nearline.cli.commands.data.target import HERE, target_of
from nearline.cli.group import CommandGroup, accepts, refuses
from nearline.cli.options import Limit, Message, Yes
from nearline.cli.session import session_of
from nearline.errors import InvalidRequest

app = CommandGroup(help="Datasets as cnvrg's second program names what `nearline data` does.")

Name = Annotated[str, typer.Option("--name", "-n", metavar="REF", help="Dataset; else this folder's.")]
Files = Annotated[str, typer.Option("--files", "-f", metavar="A,B,...", help="Paths with commas between them.")]
Commit = Annotated[str, typer.Option("--commit", "-c", help="Commit, branch or tag.")]
Disk = Annotated[str | None, typer.Option("--disk", "-d", metavar="SITE", help="Cache site; the only one otherwise.")]
Threads = Annotated[int | None, typer.Option("--threads", "-t", min=1, help="Transfers at the same time, up to 64.")]

_MOST_THREADS = 64


@app.command("create")
def create(
    context: typer.Context,
    name: Annotated[str, typer.Option("--name", "-n", help="Its name.")],
    project: Annotated[str | None, typer.Option("--project", "-p", help="Whose it is.")] = None,
    *,
    yes: Yes = False,
) -> None:
    """Make a dataset and link this folder to it."""
    session = session_of(context)
    if folder.tell_if_linked(session):
        return
    if any(Path.cwd().iterdir()):
        confirm("This folder is not empty. Link it, so that the next sync adds its files?", yes=yes, can_be_undone=True)
    folder.make_dataset(session, name, project=project)


@app.command("put")
@refuses({"--git-diff/-gd": "`nearline data sync` in a linked folder sends what changed, without git."})
@accepts("--override/-or", "--chunks/-c=")
def put(
    context: typer.Context,
    paths: Files,
    name: Name = HERE,
    directory: Annotated[str, typer.Option("--dir", "-d", help="Folder in the dataset.")] = "",
    *,
    message: Message = "",
    threads: Threads = None,
    force: Annotated[bool, typer.Option("--force", "-fc", help="The commit holds these files and no others.")] = False,
) -> None:
    """Add files to a dataset, as one commit."""
    session = session_of(context)
    target = target_of(session, name)
    options = {"directory": directory, "message": message, "only": force, "parallel": _parallel(threads)}
    files.put_files(session, target, [Path(path) for path in _split(paths)], **options)


@app.command("remove")
def remove(
    context: typer.Context, patterns: Files, name: Name = HERE, message: Message = "", *, yes: Yes = False
) -> None:
    """Remove files from the newest state of a dataset, as one commit."""
    session = session_of(context)
    target = target_of(session, name)
    files.remove_files(session, target, _split(patterns), regex=False, message=message, yes=yes)


@app.command("clone")
@refuses({"--override/-o": "Clone into a folder that is not there yet, or run `nearline data download` in the clone."})
def clone(
    context: typer.Context,
    name: Annotated[str, typer.Option("--name", "-n", metavar="REF", help="Dataset.")],
    commit: Commit = "",
    query: Annotated[str | None, typer.Option("--query", "-q", help="Only what this saved query selects.")] = None,
    threads: Threads = None,
    *,
    cache_link: Annotated[
        bool, typer.Option("--cache_link", "-cl", help="Point to the cached copy where this machine has one.")
    ] = False,
) -> None:
    """Get a dataset into a new folder of its name."""
    session = session_of(context)
    target = target_of(session, name, ref=commit or None)
    if query:
        target = with_query(target, query)
    into = Path(target.name)
    if not (cache_link and files.link_to_cache(session, target, into)):
        files.clone_files(session, target, into, is_linked=True, parallel=_parallel(threads))


@app.command("cache")
def cache(context: typer.Context, name: Name = HERE, commit: Commit = "latest", disk: Disk = None) -> None:
    """Cache a commit on a site. Asking twice copies once."""
    caches.cache(context, name, site=disk, commit=commit)


@app.command("uncache")
def uncache(
    context: typer.Context, name: Name = HERE, commit: Commit = "latest", disk: Disk = None, *, yes: Yes = False
) -> None:
    """Remove a commit's copy from a site. The dataset itself stays as it is."""
    caches.uncache(context, name, site=disk, commit=commit, yes=yes)


@app.command("delete")
def delete(context: typer.Context, name: Name = HERE, *, yes: Yes = False) -> None:
    """Delete a dataset with its whole history and its cached copies. It can be restored for some days."""
    deletion.delete_dataset(session_of(context), name, yes=yes)


@app.command("list-files")
@accepts("--chunk-size/-cs=")
def list_files(context: typer.Context, name: Name = HERE, commit: Commit = "", limit: Limit = 1000) -> None:
    """List the files of a commit."""
    session = session_of(context)
    files.show_files(session, target_of(session, name, ref=commit or None), offset=0, limit=limit)


@app.command("verify")
def verify(
    context: typer.Context,
    names: Annotated[
        str, typer.Option("--names", "-n", metavar="A,B,...", help="Folders of clones, inputs of this job.")
    ],
    timeout: presence.WaitAtMost = None,
) -> None:
    """Wait until datasets are here."""
    presence.block(context, _split(names), timeout=timeout)


app.command("list")(files.list_datasets)
app.command("upload")(folder.upload)
app.command("download")(folder.download)
app.command("scan")(presence.scan)


def _split(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise InvalidRequest(f"'{text}' names nothing.", hint="Write names with commas between them: a,b.")
    return parts


def _parallel(threads: int | None) -> int | None:
    return min(threads, _MOST_THREADS) if threads else None
