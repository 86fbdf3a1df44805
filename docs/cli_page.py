"""The page of every command, written from the commands themselves."""

from collections.abc import Iterator
from typing import Any

import typer

from nearline.cli.main import app

_ROOT = "nearline"
_HEAD = """# Commands

Written from the program itself; `nearline COMMAND --help` says the same.

Data goes to stdout, everything else to stderr. Every command knows `--json` (all that is known, for programs) and
`--quiet` (names and ids only, no progress). Settings come from options, then from the environment (`NEARLINE_URL`,
`NEARLINE_TOKEN`, `NEARLINE_PROJECT`), then from the profile that `nearline login` writes, then from a default.

A dataset is named `project/dataset`, `project/dataset@ref` (a branch, a tag, a commit or the beginning of one's id), by
the address of its page, or as `.` for the one that the folder is linked to. A name
without a project is in the project of `nearline project set`, else in your only one.

`alias cnvrg='nearline --cnvrg'` makes the commands [those of cnvrg](../guides/cnvrg.md); options of theirs that have no
meaning here are accepted and named once.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | it was tried and failed |
| 2 | wrong usage, or a value that makes no sense |
| 3 | not found |
| 4 | not signed in, or not allowed |
| 5 | conflict: the thing changed meanwhile, or the name is taken |
| 6 | a quota is used up |
| 7 | unavailable: the server or the store does not answer |
| 130 | interrupted |
"""


def render() -> str:
    """Return the page."""
    return _HEAD + "".join(_section(path, command) for path, command in _walk(typer.main.get_command(app), (_ROOT,)))


def _walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    if names and path != (_ROOT,):
        yield path, command
    if not names:
        yield path, command
    for name in names:
        yield from _walk(command.get_command(None, name), (*path, name))


def _section(path: tuple[str, ...], command: Any) -> str:
    title = " ".join(path)
    if hasattr(command, "list_commands"):
        return f"\n## {title}\n\n{command.help.strip()}\n"
    context = command.context_class(command, info_name=title)
    usage = " ".join([title, *command.collect_usage_pieces(context)])
    rows = [record for item in command.get_params(context) if (record := _record(item, context))]
    table = ["", "| | |", "| --- | --- |", *(f"| `{_cell(name)}` | {_cell(text)} |" for name, text in rows)]
    lines = [f"\n### {title}\n", command.help.strip(), f"\n    {usage}", *(table if rows else [])]
    return "\n".join(lines) + "\n"


def _record(item: Any, context: Any) -> tuple[str, str] | None:
    if item.name in {"is_json", "is_quiet", "help"}:
        return None
    record: tuple[str, str] | None = item.get_help_record(context)
    return record


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
