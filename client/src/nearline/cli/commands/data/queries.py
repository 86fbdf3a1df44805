"""Saved queries of a dataset: made, listed, asked, and used as the input of clones, jobs and steps."""

from typing import TYPE_CHECKING, Annotated

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm
from nearline.cli.commands.data.target import HERE, Ref, target_of
from nearline.cli.group import CommandGroup
from nearline.cli.options import Limit, Yes
from nearline.cli.quantities import read_bytes
from nearline.cli.session import Session, session_of
from nearline.resources.references import Reference

if TYPE_CHECKING:
    from nearline.models import Query

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the query.")]
Size = Annotated[str | None, typer.Option(metavar="SIZE", help="Like 500KB or 1GiB; a plain number is bytes.")]


def list_queries(context: typer.Context, reference: Ref = HERE) -> None:
    """List the saved queries of a dataset."""
    session = session_of(context)
    queries = list(session.client().datasets.list_queries(_target(session, reference)))
    rows = [(query.name, query.ref or "the newest", query.description) for query in queries]
    empty = "There is no query yet. `nearline data query create` saves one."
    session.out.table(queries, ("QUERY", "ASKED OF", "SELECTS"), rows, empty=empty)


def create_query(
    context: typer.Context,
    name: Name,
    reference: Ref = HERE,
    *,
    path: Annotated[list[str] | None, typer.Option("--path", help="Glob, like 'train/**/*.png'; repeatable.")] = None,
    contains: Annotated[str, typer.Option(help="A part of the path, in any case.")] = "",
    regex: Annotated[str, typer.Option(help="A regular expression, searched for in the path.")] = "",
    types: Annotated[list[str] | None, typer.Option("--type", help="Ending of the name, like png; repeatable.")] = None,
    min_size: Size = None,
    max_size: Size = None,
    file_tags: Annotated[
        list[str] | None, typer.Option("--file-tag", help="Tag of the file, like label=lung; repeatable.")
    ] = None,
    tags_file: Annotated[
        str, typer.Option(help="The CSV, YAML or Parquet file with the tags; else tags.csv, tags.yaml, tags.parquet.")
    ] = "",
) -> None:
    """Save a query.

    A file is selected when it meets all conditions: one of the paths and types, all file tags. A branch,
    tag or commit in REF is what is asked where no other is named.
    """
    session = session_of(context)
    query = session.client().datasets.create_query(
        _target(session, reference),
        name,
        globs=path or (),
        contains=contains,
        regex=regex,
        types=types or (),
        min_size_bytes=_read_size(min_size),
        max_size_bytes=_read_size(max_size),
        file_tags=file_tags or (),
        tags_file=tags_file,
    )
    _show(session, query)


def show_query(context: typer.Context, name: Name, reference: Ref = HERE) -> None:
    """Show what a query asks for, and how it is named as an input."""
    session = session_of(context)
    _show(session, session.client().datasets.get_query(_target(session, reference), name))


def list_query_files(context: typer.Context, name: Name, reference: Ref = HERE, limit: Limit = 1000) -> None:
    """List the files that a query selects of a commit."""
    session = session_of(context)
    target = with_query(_target(session, reference), name)
    files = list(session.client().datasets.list_query_files(target, limit=limit))
    rows = [(item.path, formats.size(item.size_bytes), (item.content_id or "")[:12]) for item in files]
    session.out.table(files, ("FILE", "SIZE", "CONTENT"), rows, empty="It selects no file.")


def select(context: typer.Context, name: Name, reference: Ref = HERE) -> None:
    """Make a commit of what a query selects.

    Asked again, it is the same one. Jobs, clones and caches do so by themselves.
    """
    session = session_of(context)
    target = with_query(_target(session, reference), name)
    commit = session.client().datasets.select(target)
    fields = [
        ("Commit", f"{target.dataset}@{commit.short}"),
        ("Of", (commit.parent or "")[:8]),
        ("Files", formats.count(commit.files, "file")),
        ("Size", formats.size(commit.size_bytes)),
    ]
    session.out.record(commit, fields)


def delete_query(context: typer.Context, name: Name, reference: Ref = HERE, *, yes: Yes = False) -> None:
    """Delete a query. Commits with what it selected stay."""
    session = session_of(context)
    target = _target(session, reference)
    confirm(f"Delete the query {name} of {target.dataset}?", yes=yes)
    session.client().datasets.delete_query(target, name)
    session.out.done(f"Deleted the query {name}.")


def with_query(target: Reference, name: str) -> Reference:
    """Return the reference of what a query selects."""
    return Reference(target.project, target.name, f"{target.ref or ''}:{name}")


def _target(session: Session, text: str) -> Reference:
    target = target_of(session, text)
    # Here the dataset is meant; a query is asked of what it says, not of the branch that the folder follows.
    return Reference(target.project, target.name) if text == HERE else target


def _read_size(text: str | None) -> int | None:
    if text is None:
        return None
    return int(text) if text.isascii() and text.isdigit() else read_bytes(text)


def _show(session: Session, query: "Query") -> None:
    fields = [
        ("Query", query.name),
        ("Selects", query.description),
        ("Asked of", query.ref or "the newest commit"),
        ("Input", query.reference),
    ]
    session.out.record(query, fields)


app = CommandGroup(help="Saved queries: files of a commit by path, size, type and tags.")
for command, function in {
    "list": list_queries,
    "create": create_query,
    "show": show_query,
    "files": list_query_files,
    "select": select,
    "delete": delete_query,
}.items():
    app.command(command)(function)
