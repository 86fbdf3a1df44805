"""Options of other programs that have no meaning here: accepted, and named once, or refused with what to do instead."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from nearline.cli.group import with_options
from nearline.cli.session import session_of
from nearline.errors import InvalidRequest

Command = Callable[..., None]


def accepts(*declarations: str) -> Callable[[Command], Command]:
    """Let a command accept options without a meaning: `--verbose/-v` for a switch, `--tags=` for one with a value."""
    options = dict(map(_option, declarations))

    def tell(context: typer.Context, given: Mapping[str, Any]) -> None:
        used = [f"--{name}" for name, value in given.items() if value]
        if used:
            session_of(context).out.note(f"Accepted without effect: {', '.join(sorted(used))}.")

    return lambda command: with_options(command, options, tell)


def refuses(advice: Mapping[str, str]) -> Callable[[Command], Command]:
    """Let a command refuse options by name, each with what to do instead; they are declared as in `accepts`."""
    options = dict(map(_option, advice))
    advice_by_name = dict(zip(options, advice.values(), strict=True))

    def check(_context: typer.Context, given: Mapping[str, Any]) -> None:
        for name, value in given.items():
            if value:
                flag = name.replace("_", "-")
                raise InvalidRequest(
                    f"--{flag} is not supported.", code="client.flag_refused", hint=advice_by_name[name]
                )

    return lambda command: with_options(command, options, check)


def _option(declaration: str) -> tuple[str, Any]:
    names, equals, _ = declaration.partition("=")
    flags = names.split("/")
    kind = Annotated[str | None if equals else bool, typer.Option(*flags, hidden=True)]  # type: ignore[valid-type]
    return flags[0].removeprefix("--").replace("-", "_"), kind
