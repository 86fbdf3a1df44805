"""cnvrg's options that have no meaning here: accepted, so that scripts run unchanged, and said so once."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from nearline.cli.group import with_options
from nearline.cli.session import session_of

Command = Callable[..., None]


def accepts(*declarations: str) -> Callable[[Command], Command]:
    """Let a command accept options without a meaning: `--verbose/-v` for a switch, `--tags=` for one with a value."""
    options = dict(map(_option, declarations))

    def tell(context: typer.Context, given: Mapping[str, Any]) -> None:
        used = [f"--{name}" for name, value in given.items() if value]
        if used:
            session_of(context).out.note(f"Accepted without effect: {', '.join(sorted(used))}.")

    return lambda command: with_options(command, options, tell)


def _option(declaration: str) -> tuple[str, Any]:
    names, equals, _ = declaration.partition("=")
    flags = names.split("/")
    kind = Annotated[str | None if equals else bool, typer.Option(*flags, hidden=True)]  # type: ignore[valid-type]
    return flags[0].removeprefix("--").replace("-", "_"), kind
