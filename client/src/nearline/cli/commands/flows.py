"""Pipelines: check, store, run."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm
from nearline.cli.code import note_left_out
from nearline.cli.group import CommandGroup
from nearline.cli.options import Project, Timeout, Wait, Yes
from nearline.cli.output import printable
from nearline.cli.session import Session, session_of
from nearline.errors import Failed, InvalidRequest, NotFound

if TYPE_CHECKING:
    from nearline.models import FlowVersion, Problem

app = CommandGroup(help="Pipelines: validate, push, run, show, delete.")


FlowFile = Annotated[str, typer.Argument(metavar="FILE", help="The flow's YAML file; `-` reads stdin.")]

Stored = Annotated[str, typer.Argument(metavar="NAME", help="A stored flow: NAME or PROJECT/NAME.")]

WithCode = Annotated[bool, typer.Option("--code/--no-code", help="Send the files beside the flow's file along.")]


@app.command("validate")
def validate(context: typer.Context, file: FlowFile, project: Project = None) -> None:
    """Report everything that is wrong with a flow, with lines. Nothing is stored."""
    session = session_of(context)
    text = _read(file)
    problems = session.client().flows.validate(session.project(project), text)
    errors = [problem for problem in problems if not problem.is_note]
    if session.out.is_json:
        session.out.json({"items": [problem.to_json() for problem in problems], "is_valid": not errors})
    else:
        for problem in problems:
            session.out.line(_problem_line(file, problem))
    if errors:
        raise Failed(f"{file} has {formats.count(len(errors), 'problem')}.", code="flows.invalid")
    session.out.done(f"{file} is right.")


@app.command("push")
def push(context: typer.Context, file: FlowFile, project: Project = None, *, with_code: WithCode = True) -> None:
    """Store a flow and the code beside it as a version.

    The same content is the same version. The code is what git tracks or would track in the file's folder.
    """
    session = session_of(context)
    version = _push(session, file, session.project(project), with_code=with_code)
    session.out.record(version, [("Flow", f"{version.project}/{version.flow}"), ("Version", version.hash)])


@app.command("run")
def run(
    context: typer.Context,
    flow: Annotated[str, typer.Argument(metavar="FILE|NAME", help="A YAML file, or the name of a stored flow.")],
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", "-P", metavar="KEY=VALUE", help="A parameter of the run.")
    ] = None,
    project: Project = None,
    *,
    version: Annotated[
        str | None, typer.Option(metavar="HASH|NUMBER", help="Which version of a stored flow; else the newest.")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(metavar="REFERENCE=COMMIT", help="Read another commit of a dataset.")
    ] = None,
    with_code: WithCode = True,
    wait: Wait = False,
    timeout: Timeout = None,
) -> None:
    """Start a run of a file or of a stored flow.

    A file is stored first. The run remembers the git commit of the file's folder and a hash of what is not committed.
    """
    from nearline.cli.following import follow_run, show_run  # noqa: PLC0415 (only where a run is shown)
    from nearline.resources.code_bundle import read_code_version  # noqa: PLC0415 (only where a run starts)

    session = session_of(context)
    client = session.client()
    parameters = _pairs(parameter or [], "a parameter", "Write it like -P epochs=20.")
    commits = _pairs(data or [], "a dataset's commit", "Write it like --data demo/digits@main=3d468961.")
    if _is_file(flow):
        if version:
            raise InvalidRequest("A file is a version of its own.", hint="Name the stored flow instead of the file.")
        pushed = _push(session, flow, session.project(project), with_code=with_code)
        folder = Path.cwd() if flow == "-" else Path(flow).resolve().parent
        code = read_code_version(folder)
        started = client.flows.run(
            pushed.project, pushed.flow, parameters=parameters, version=pushed.hash, code=code, data=commits
        )
    else:
        team, _, name = flow.rpartition("/")
        started = client.flows.run(
            session.project(team or project), name, parameters=parameters, version=version, data=commits
        )
    session.out.note(f"Run {started.id} started: {started.url}")
    if wait:
        follow_run(session, started.id, timeout_s=timeout)
    else:
        show_run(session, started)


@app.command("list")
def list_flows(context: typer.Context, project: Project = None) -> None:
    """List the stored flows."""
    session = session_of(context)
    flows = list(session.client().flows.list(project=project))
    rows = [(f"{flow.project}/{flow.name}", flow.newest_text, formats.ago(flow.updated_at)) for flow in flows]
    empty = "There is no flow. `nearline flow push FILE` stores one."
    session.out.table(flows, ("FLOW", "VERSION", "CHANGED"), rows, empty=empty)


@app.command("show")
def show_flow(
    context: typer.Context,
    flow: Stored,
    project: Project = None,
    *,
    version: Annotated[
        str | None, typer.Option(metavar="HASH|NUMBER", help="Which of its versions; else the newest.")
    ] = None,
) -> None:
    """Print the file of a stored flow. One that was drawn in the browser has one too."""
    session = session_of(context)
    team, _, name = flow.rpartition("/")
    stored = session.client().flows.get(session.project(team or project), name, version=version)
    if session.out.is_json:
        session.out.json(stored.to_json())
    elif session.out.is_quiet:
        session.out.line(stored.newest_text)
    else:
        sys.stdout.write(stored.text if stored.text.endswith("\n") else f"{stored.text}\n")


@app.command("delete")
def delete_flow(
    context: typer.Context,
    flow: Stored,
    project: Project = None,
    *,
    yes: Yes = False,
) -> None:
    """Delete a stored flow with its versions and runs. It cannot be restored.

    Admins of its project may, once none of its runs goes on.
    """
    session = session_of(context)
    flows = session.client().flows
    team, _, name = flow.rpartition("/")
    owner = session.project(team or project)
    effects = flows.foresee_deletion(owner, name)
    session.out.warn(printable(" ".join([f"{owner}/{name} will be deleted.", *effects])))
    confirm(f"Delete {owner}/{name}?", yes=yes)
    flows.delete(owner, name)
    session.out.record({"deleted": f"{owner}/{name}"}, [("Deleted", f"{owner}/{name}")])


def _is_file(flow: str) -> bool:
    return flow == "-" or flow.endswith((".yaml", ".yml", ".json")) or Path(flow).is_file()


def _read(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    try:
        text = Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"There is no file '{file}'.", hint="Name a flow's YAML file.") from None
    except (UnicodeDecodeError, IsADirectoryError):
        raise InvalidRequest(f"'{file}' is not a text file.", hint="Name a flow's YAML file.") from None
    if file.endswith(".py"):
        hint = (
            "Run it with python: `client.flows.push(PROJECT, flow)` stores its flow, `flow.to_yaml()` writes the file."
        )
        raise InvalidRequest(f"'{file}' is a program, not a flow's YAML file.", hint=hint)
    return text


def _push(session: Session, file: str, project: str, *, with_code: bool) -> "FlowVersion":
    from nearline.cli.progress import progress_of  # noqa: PLC0415 (only where a flow is stored)
    from nearline.resources.code_bundle import find_code  # noqa: PLC0415

    text = _read(file)
    path = Path(file).resolve()
    code = find_code(path.parent, without=path) if with_code and file != "-" else None
    try:
        with progress_of(session.out) as on_progress:
            version = session.client().flows.push(project, text, code=code, on_progress=on_progress)
    except InvalidRequest as error:
        for problem in _problems_of(error):
            session.out.note(_problem_line(file, problem))
        raise
    if code is not None:
        note_left_out(session.out, code.left_out)
    return version


def _problems_of(error: InvalidRequest) -> "list[Problem]":
    from nearline.models import Problem  # noqa: PLC0415 (only where something is wrong)

    problems = error.details.get("problems")
    return [Problem.read(item) for item in problems] if isinstance(problems, list) else []


def _problem_line(file: str, problem: "Problem") -> str:
    place = ":".join(str(part) for part in (file, problem.line, problem.column) if part is not None)
    word = "note: " if problem.is_note else ""
    return printable(f"{place}: {word}{problem.message}" + (f"  [{problem.path}]" if problem.path else ""))


def _pairs(given: list[str], what: str, hint: str) -> dict[str, str]:
    values = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise InvalidRequest(f"'{item}' is not {what}.", hint=hint)
        values[key] = value
    return values
