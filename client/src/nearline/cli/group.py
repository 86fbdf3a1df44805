"""The shape of every command: `--json`, `--quiet`, errors as text and exit code; groups are loaded when used.

Options of other programs that have no meaning here are accepted, and named once, or refused with what to do instead.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from nearline.cli.output import failure_of, printable, report, say
from nearline.cli.session import session_of
from nearline.errors import INTERRUPTED, InvalidRequest, NearlineError

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter

_PATHS = (Path, list[Path])
_NUMBERS = {int: "whole number", float: "number"}
_Function = Callable[..., None]


def _coerce(value: Any, *, param: Any, ctx: "Context") -> Any:
    """Return what the program gets for a value that was given, or for None."""
    if (value is None and param.nargs == 1 and not param.multiple) or type(value) is param.type_descriptor.annotation:
        return value
    if param.type_descriptor.annotation in _PATHS and "" in (value or () if param.nargs == -1 else [value]):
        # As a path it would be the folder one stands in, and most often it is a variable of the shell that is not set.
        raise typer.BadParameter("A path is empty; '.' is this folder.", ctx=ctx, param=param)
    try:
        return type(param).get_runtime_param(param).coerce(value, param=param, ctx=ctx)
    except typer.BadParameter as error:
        error.message = _name_number(error, param) or error.message.removeprefix("Value error, ")
        raise


def _name_number(error: typer.BadParameter, param: Any) -> str:
    """Return which numbers a parameter takes, and what was given instead; empty where it takes no number."""
    annotation, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
    kind = next((word for type_, word in _NUMBERS.items() if type_ in (annotation, *get_args(annotation))), None)
    given = getattr(error.__cause__, "errors", None)
    if kind is None or given is None:
        return ""
    bounds = (
        ""
        if info.min is None
        else f" of at least {info.min}"
        if info.max is None
        else f" from {info.min} to {info.max}"
    )
    return f"'{printable(str(given()[0]['input']))}' is not a {kind}{bounds}."


class _QuickParameters:
    """Parameters that load Pydantic only where a value has to be converted.

    Typer loads it for every value, and that takes as long as all else that a command needs.
    """

    def get_params(self, ctx: "Context") -> list[Any]:
        """Return the options and arguments."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            parameter.get_runtime_param = lambda: SimpleNamespace(coerce=_coerce)
        return parameters


class NearlineCommand(_QuickParameters, TyperCommand):
    """A command."""


class NearlineGroup(_QuickParameters, TyperGroup):
    """A group whose subgroups are imported when they are entered, so that `--help` waits for none of them."""

    lazy: ClassVar[dict[str, tuple[str, str]]] = {}
    verbs: ClassVar[dict[str, tuple[str, str]]] = {}
    """Single commands by name, each from the group in a module, for those who know another program."""

    def list_commands(self, ctx: "Context") -> list[str]:
        """Return the names of the subgroups, then those of the commands."""
        return [*self.lazy, *super().list_commands(ctx), *self.verbs]

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        """Return a command, importing the subgroup of that name."""
        if cmd_name in self.verbs:
            group = typer.main.get_group(import_module(self.verbs[cmd_name][0]).app)
            return group.get_command(ctx, cmd_name)
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        module, _ = self.lazy[cmd_name]
        return typer.main.get_command(import_module(module).app)

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """List the subgroups by the sentence that is known without importing them."""
        rows = [(name, text) for name, (_, text) in self.lazy.items()]
        for name in super().list_commands(ctx):
            command = super().get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(limit=80)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)
        if self.verbs:
            with formatter.section("Commands of Run:AI, for `alias runai=nearline`"):
                formatter.write_dl([(name, text) for name, (_, text) in self.verbs.items()])

    def invoke(self, ctx: "Context") -> Any:
        """Run the command; a failure that was anticipated becomes a message and an exit code."""
        failure: NearlineError
        try:
            return super().invoke(ctx)
        except NearlineError as error:
            failure = error
        except BrokenPipeError:
            raise
        except OSError as error:
            failure = failure_of(error)
        except KeyboardInterrupt:
            say("\nInterrupted.")
            raise typer.Exit(INTERRUPTED) from None
        report(failure, as_json=session_of(ctx).out.is_json)
        raise typer.Exit(failure.exit_code)


class CommandGroup(typer.Typer):
    """A set of commands that share the shape above."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            cls=kwargs.pop("cls", NearlineGroup),
            # Plain help: the styled one needs a library that takes as long to load as all the rest.
            rich_markup_mode=None,
            add_completion=False,
            no_args_is_help=True,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
            **kwargs,
        )

    def command(self, name: str | None = None, **kwargs: Any) -> Callable[[Any], Any]:
        """Add a function as a command, which then knows `--json` and `--quiet` without saying so."""
        add = super().command(name, **{"cls": NearlineCommand, **kwargs})
        return lambda function: add(with_options(function, _OUTPUT_OPTIONS, _set_output))


def with_options(
    function: _Function, options: Mapping[str, Any], take: Callable[[typer.Context, Mapping[str, Any]], None]
) -> _Function:
    """Return the command with more options, by name and annotation, which `take` gets before the command runs."""

    @wraps(function)
    def run(**given: Any) -> None:
        take(given["context"], {name: given.pop(name) for name in options})
        function(**given)

    signature = inspect.signature(function, eval_str=True)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_default(kind), annotation=kind)
        for name, kind in options.items()
    ]
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *added])  # type: ignore[attr-defined]
    run.__annotations__ = {**function.__annotations__, **options}
    return run


def accepts(*declarations: str) -> Callable[[_Function], _Function]:
    """Let a command accept options without a meaning: `--verbose/-v` for a switch, `--tags=` for one with a value."""
    options = dict(map(_option, declarations))

    def tell(context: typer.Context, given: Mapping[str, Any]) -> None:
        used = [f"--{name}" for name, value in given.items() if value]
        if used:
            session_of(context).out.note(f"Accepted without effect: {', '.join(sorted(used))}.")

    return lambda command: with_options(command, options, tell)


def refuses(advice: Mapping[str, str]) -> Callable[[_Function], _Function]:
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


def _default(annotation: Any) -> Any:
    return False if get_args(annotation)[0] is bool else None


def _set_output(context: typer.Context, given: Mapping[str, Any]) -> None:
    out = session_of(context).out
    out.is_json, out.is_quiet = given["is_json"], given["is_quiet"]


_OUTPUT_OPTIONS = {
    "is_json": Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")],
    "is_quiet": Annotated[bool, typer.Option("--quiet", help="Print names and ids only, and no progress.")],
}
