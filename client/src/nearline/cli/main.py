"""The program `nearline`. `alias cnvrg='nearline --cnvrg'` makes it cnvrg's, `alias runai=nearline` Run:AI's."""

import atexit
import gc
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from nearline.cli.commands import auth
from nearline.cli.group import CommandGroup, NearlineGroup
from nearline.cli.output import failure_of, report, write
from nearline.cli.session import session_of
from nearline.errors import INTERRUPTED, Failed

_COMMANDS = "nearline.cli.commands"
_CNVRG = "nearline.cli.cnvrg"
_RUNAI = "nearline.cli.runai"


class RootGroup(NearlineGroup):
    """The top of the tree of commands."""

    lazy = {
        "data": (f"{_COMMANDS}.data.app", "Versioned datasets: sync, clone, cache, history."),
        "flow": (f"{_COMMANDS}.flows", "Pipelines: validate, push, run."),
        "run": (f"{_COMMANDS}.runs", "Executions of flows: show, logs, cancel, retry."),
        "job": (f"{_COMMANDS}.jobs", "Jobs on compute resources: submit, list, logs, stop."),
        "experiment": (f"{_COMMANDS}.experiments", "What steps recorded: parameters, metrics, artifacts."),
        "cache": (f"{_COMMANDS}.caches", "Cached commits near compute, and what is evicted next."),
        "compute": (f"{_COMMANDS}.compute", "Where steps run: resources, nodes, templates."),
        "analytics": (f"{_COMMANDS}.analytics", "What happened on the clusters: evictions, consumption."),
        "pool": (f"{_COMMANDS}.pools", "Pools of nodes: list, create, move, delete."),
        "queue": (f"{_COMMANDS}.queues", "Quotas, limits and rules: list, show, set, departments."),
        "project": (f"{_COMMANDS}.projects", "Teams and what they own."),
        "member": (f"{_COMMANDS}.members", "Members of a project and their roles: list, set, remove."),
        "secret": (f"{_COMMANDS}.secrets", "Secrets of a project, which jobs ask for by name: list, set, delete."),
        "demo": (f"{_COMMANDS}.demo.app", "Walks through what the scheduler does, on simulated GPUs."),
        "source": (f"{_COMMANDS}.sources", "Where files are imported from in place: list, set, remove."),
        "user": (f"{_COMMANDS}.users", "People, for site admins: list, create, disable, enable, sign out."),
        "token": (f"{_COMMANDS}.tokens", "Personal access tokens."),
        "dataset": (f"{_CNVRG}.dataset", "Datasets as cnvrg's second program names what `nearline data` does."),
    }
    verbs = {
        "submit": (f"{_RUNAI}.submit", "Submit a job."),
        "submit-dist": (f"{_RUNAI}.submit", "Submit a job of several workers."),
        "list": (f"{_RUNAI}.listings", "List jobs, projects or nodes."),
        "top": (f"{_RUNAI}.listings", "Show what is held on nodes."),
        "get": (f"{_RUNAI}.jobs", "Show a job."),
        "describe": (f"{_RUNAI}.jobs", "Show a job."),
        "logs": (f"{_RUNAI}.jobs", "Print what a job has written."),
        "bash": (f"{_RUNAI}.jobs", "Open a shell in a job."),
        "exec": (f"{_RUNAI}.jobs", "Run a command in a job."),
        "port-forward": (f"{_RUNAI}.jobs", "Reach ports of a job from this machine."),
        "delete": (f"{_RUNAI}.jobs", "Stop jobs for good."),
        "suspend": (f"{_RUNAI}.jobs", "Stop jobs until they are resumed."),
        "resume": (f"{_RUNAI}.jobs", "Queue suspended jobs again."),
        "config": (f"{_RUNAI}.projects", "Choose the default project."),
    }


app = CommandGroup(name="nearline", cls=RootGroup)
for name, function in auth.COMMANDS.items():
    app.command(name)(function)
app.command("me", hidden=True)(auth.whoami)


def _print_version(is_asked: bool) -> None:  # noqa: FBT001 (Typer passes the value of the option)
    if is_asked:
        from importlib.metadata import version  # noqa: PLC0415 (slow to load, rarely needed)

        write(version("nearline"))
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    url: Annotated[str | None, typer.Option(help="Address of the server.", envvar="NEARLINE_URL")] = None,
    token: Annotated[str | None, typer.Option(help="Access token.", envvar="NEARLINE_TOKEN")] = None,
    *,
    cnvrg: Annotated[
        bool, typer.Option("--cnvrg", help="Mean what cnvrg means: `data rm` takes regular expressions.")
    ] = False,
    version: Annotated[  # noqa: ARG001 (its callback prints it, before a command is asked for)
        bool,
        typer.Option("--version", help="Print the version and end.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Nearline: versioned datasets next to the GPUs that train on them, and the flows that run there."""
    session = session_of(context)
    session.url, session.token = url or session.url, token or session.token
    session.is_cnvrg = cnvrg or context.info_name == "cnvrg"


def main() -> None:
    """Run the program and end the process with its exit code."""
    _prepare_streams()
    # What is left when the process ends goes with it. Python would look through all of it once more.
    atexit.register(gc.freeze)
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has left (`| head`).
        _drop_output()
        sys.exit(Failed.exit_code)
    except OSError as error:
        _drop_output()
        report(failure_of(error), as_json=False)
        sys.exit(Failed.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:  # the entry point: people get a sentence, and the traceback where they ask for it
        if os.environ.get("NEARLINE_DEBUG"):
            raise
        unexpected = Failed(
            f"Something broke inside the client: {type(error).__name__}: {error}",
            code="client.broken",
            hint=f"Please report it. {_keep_details()}",
        )
        report(unexpected, as_json=False)
        sys.exit(Failed.exit_code)


def _drop_output() -> None:
    """Let nothing more be written to stdout, so that Python does not fail again when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _keep_details() -> str:
    """Write down the failure that is being handled, and say where."""
    import tempfile  # noqa: PLC0415 (rarely needed, like what follows)
    import traceback  # noqa: PLC0415

    try:
        # Readable by nobody else: it may hold what was worked on.
        descriptor, path = tempfile.mkstemp(prefix="nearline-", suffix=".log", text=True)
        with os.fdopen(descriptor, "w", errors="replace") as file:
            file.write(traceback.format_exc())
    except OSError:
        return "NEARLINE_DEBUG=1 prints the details."
    return f"The details are in {path}."


def _prepare_streams() -> None:
    # Python has no stream where the caller closed it (`>&-`); a file that is opened later must not take its place.
    sys.stdin = sys.stdin or Path(os.devnull).open()  # noqa: SIM115 (open until the end)
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # File names need not be text; they leave as the bytes that they are.
        stream.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
