"""Sources: folders and parts of buckets that projects may import from in place."""

import os
from typing import Annotated

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm, read_hidden
from nearline.cli.group import CommandGroup
from nearline.cli.options import Yes
from nearline.cli.session import session_of
from nearline.errors import InvalidRequest

app = CommandGroup(help="Where files are imported from in place: list, set, check, remove.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the source.")]
_SECRET = "NEARLINE_SOURCE_SECRET_KEY"  # noqa: S105 (the name of a variable)


@app.command("list")
def list_sources(context: typer.Context) -> None:
    """List the sources that your projects may import from."""
    session = session_of(context)
    sources = list(session.client().sources.list())
    rows = [
        (
            one.name,
            one.kind,
            one.location,
            ", ".join(one.projects),
            formats.size(one.referenced_bytes) if one.referenced_bytes is not None else "",
            str(one.changed_files or ""),
            formats.ago(one.read_at),
        )
        for one in sources
    ]
    headings = ("NAME", "KIND", "LOCATION", "PROJECTS", "REFERENCED", "CHANGED", "READ")
    session.out.table(sources, headings, rows, empty="There is no source that you may import from.")


@app.command("set")
def set_source(
    context: typer.Context,
    name: Name,
    location: Annotated[
        str, typer.Argument(help="A folder of the server, s3://bucket/prefix?endpoint=…&region=…, or site://NAME.")
    ] = "",
    *,
    projects: Annotated[
        list[str] | None, typer.Option("--project", help="A project that may import from it; repeatable.")
    ] = None,
    access_key: Annotated[
        str,
        typer.Option(help=f"The key of the bucket; its secret is asked for, or {_SECRET}. Else those of the store."),
    ] = "",
) -> None:
    """Let projects import from a folder, bucket or volume. For site admins.

    Of a source that is there, what is not given stays; the projects that are named replace those before.
    """
    session = session_of(context)
    secret = (os.environ.get(_SECRET) or read_hidden("Secret key")) if access_key else ""
    if access_key and not secret:
        raise InvalidRequest("There is no secret key.", hint=f"Give it on stdin, or set {_SECRET}.")
    source = session.client().sources.set(
        name, location, access_key=access_key, secret_key=secret, projects=projects or None
    )
    fields = [("Source", source.name), ("Location", source.location), ("Projects", ", ".join(source.projects))]
    session.out.record(source, fields)


@app.command("check")
def check_source(context: typer.Context, name: Name) -> None:
    """See whether a source can be read, and what changed there.

    What was imported from it is compared; `nearline source list` shows the result. For site admins.
    """
    session = session_of(context)
    source = session.client().sources.check_source(name)
    datasets = formats.count(len(source.datasets), "dataset")
    session.out.done(f"{name} can be listed and read. {datasets} that read from it are compared with it now.")


@app.command("remove")
def remove_source(context: typer.Context, name: Name, *, yes: Yes = False) -> None:
    """Forget a source that no dataset needs. Its files are not touched. For site admins."""
    session = session_of(context)
    confirm(f"Forget the source {name}?", yes=yes)
    session.client().sources.remove(name)
    session.out.done(f"The source {name} is forgotten. Its files are where they were.")
