"""What holds for every command: help, JSON, quiet, exit codes, and no hurry lost at the start."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

import pytest
import typer
from typer._click import Context
from typer.testing import CliRunner

from nearline.cli.main import app

GROUPS = {
    "": {
        *("login", "logout", "whoami", "me"),
        *("submit", "submit-dist", "list", "top", "get", "describe", "logs", "bash", "exec", "port-forward"),
        *("delete", "suspend", "resume", "config"),
    },
    "data": {
        *("init", "link", "sync", "upload", "download", "put", "rm", "clone", "list", "commits", "files", "verify"),
        *("cache", "uncache", "status", "diff", "revert", "branch", "tag", "damage"),
        *("merge", "mv", "rename", "import", "imports", "promote", "cancel-import", "export"),
        *("queries", "query_files", "clone_query", "scan", "block", "set", "delete", "deleted", "restore"),
    },
    "dataset": {
        *("create", "put", "remove", "clone", "cache", "uncache", "delete", "list", "list-files", "verify"),
        *("upload", "download", "scan"),
    },
    "data query": {"list", "create", "show", "files", "select", "delete"},
    "flow": {"validate", "push", "run", "list", "show", "delete"},
    "run": {"list", "show", "logs", "cancel", "retry", "keep", "delete"},
    "job": {
        *("submit", "list", "show", "logs", "usage", "try", "why", "evictions", "exec", "bash"),
        "port-forward",
        *("stop", "keep", "delete", "suspend", "resume", "rerun"),
    },
    "experiment": {"list", "show", "compare", "delete"},
    "cache": {"add", "list", "plan", "set", "array", "pin", "scrub", "events"},
    "compute": {
        *("attach", "rotate", "set", "drain", "detach", "give-up", "list", "show", "events", "nodes", "sites"),
        *("add-template", "set-template", "delete-template"),
    },
    "pool": {"list", "show", "create", "move", "take-out", "set", "delete"},
    "analytics": {"evictions", "consumption", "idle"},
    "demo": {"tr4858", "wait"},
    "queue": {"list", "show", "set", "departments", "create-department", "delete-department"},
    "project": {"list", "create", "set", "storage", "audit", "delete", "deleted", "restore"},
    "member": {"list", "set", "remove"},
    "secret": {"list", "set", "delete"},
    "source": {"list", "set", "check", "remove"},
    "user": {"list", "create", "sign-in-link", "disable", "enable", "sign-out"},
    "token": {"list", "create", "revoke"},
}
EXIT_CODES = {400: 2, 401: 4, 403: 4, 404: 3, 409: 5, 422: 6, 429: 7, 500: 1, 503: 7}


def walk(command=None, path=()) -> Iterator[tuple[tuple[str, ...], object]]:
    command = command or typer.main.get_command(app)
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    if not names:
        yield path, command
    for name in names:
        yield from walk(command.get_command(None, name), (*path, name))


@contextmanager
def suppress_unless_named(value: str) -> Iterator[None]:
    """Let a refusal pass that says which value it refuses; a library's own words do not."""
    try:
        yield
    except typer.BadParameter as error:
        assert f"'{value}' is not" in error.message  # noqa: PT017 (not every option refuses it)


COMMANDS = {" ".join(path): command for path, command in walk()}


def test_the_documented_commands_are_there():
    expected = {f"{group} {name}".strip() for group, names in GROUPS.items() for name in names}

    assert set(COMMANDS) == expected


def test_the_version_is_printed_without_a_command():
    done = CliRunner().invoke(app, ["--version"])

    assert (done.exit_code, done.output) == (0, f"{version('nearline')}\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name):
    done = CliRunner().invoke(app, [*name.split(), "--help"])

    assert done.exit_code == 0
    assert f"nearline {name}" in done.output.replace("root ", "nearline ")
    assert "--json" in done.output
    assert "--quiet" in done.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_and_argument_has_a_text_unless_it_is_there_for_compatibility(name):
    unexplained = [item.name for item in COMMANDS[name].params if not item.help and not item.hidden]

    assert unexplained == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_first_sentence_fits_into_a_listing(name):
    assert len(COMMANDS[name].help.split("\n")[0]) <= 100
    assert not COMMANDS[name].get_short_help_str(limit=66).endswith("...")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_value_that_an_option_cannot_have_is_repeated_in_the_error(name):
    context = Context(COMMANDS[name])

    for option in COMMANDS[name].get_params(context):
        if not getattr(option, "is_flag", False):
            with suppress_unless_named("-x"):
                option.get_runtime_param().coerce(
                    ["-x"] if option.multiple or option.nargs == -1 else "-x", param=option, ctx=context
                )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--completions", "0"], "'--completions': '0' is not a whole number of at least 1."),
        (["--completions", "many"], "'--completions': 'many' is not a whole number of at least 1."),
        (["--port", "80", "--port", "70000"], "'--port': '70000' is not a whole number from 1 to 65535."),
        (["--grace-period", "nan"], "'--grace-period': 'nan' is not a number of at least 0."),
    ],
)
def test_a_number_out_of_bounds_is_refused_with_the_bounds(arguments, text):
    done = CliRunner().invoke(app, ["job", "submit", *arguments, "--", "true"])

    assert done.exit_code == 2
    assert text in done.output


@pytest.mark.parametrize(("status", "exit_code"), EXIT_CODES.items())
def test_the_exit_code_tells_the_kind_of_failure(cli, server, status, exit_code):
    server.refuse("GET", "/me", status, title="It is so.", hint="Do this.")

    done = cli("whoami")

    assert done.exit_code == exit_code
    assert (done.stdout, done.stderr) == ("", "✗ It is so.\nhint: Do this.\n")


def test_a_failure_of_a_command_that_speaks_json_is_json_on_stderr(cli, server):
    server.refuse("GET", "/me", 404, title="Gone.")

    done = cli("whoami", "--json")

    assert (done.exit_code, done.stdout) == (3, "")
    assert '"code": "x.y"' in done.stderr


def test_wrong_usage_is_2(cli):
    assert [cli(*call).exit_code for call in (("bogus",), ("data", "bogus"), ("whoami", "--bogus"))] == [2, 2, 2]


def test_nobody_is_signed_in_says_how_to(tmp_path):
    done = CliRunner(env={"HOME": str(tmp_path), "NEARLINE_TOKEN": "", "NEARLINE_URL": ""}).invoke(app, ["whoami"])

    assert done.exit_code == 4
    assert "hint: Run `nearline login`" in done.stderr


def test_a_file_that_cannot_be_written_is_named_and_is_no_traceback(cli, server, monkeypatch):
    monkeypatch.setenv("HOME", "/dev/null")
    server.on("GET", "/me", {"name": "ada", "is_site_admin": False, "projects": []})

    done = cli("logout")

    assert done.exit_code == 0


def nearline(*arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-c", "from nearline.cli.main import main; main()", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_a_reader_that_leaves_is_no_error():
    process = nearline("--help")
    process.stdout.close()

    assert process.wait(120) in (0, 1)
    assert process.stderr.read() == ""
    process.stderr.close()


def test_help_loads_neither_the_http_library_nor_the_drawing_library():
    code = (
        "import sys\n"
        "from nearline.cli.main import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(len({'httpx', 'rich', 'blake3'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_a_command_loads_neither_the_library_of_types_nor_certificates_nor_records_that_it_does_not_show():
    code = (
        "import ssl, sys\n"
        "from nearline.cli.main import app\n"
        "from nearline.models import Record\n"
        "ssl.SSLContext.load_verify_locations = None\n"
        "try: app(['data', 'list', '--project', 'vision'])\n"
        "except SystemExit as end: print(end.code)\n"
        "print(*sorted({'pydantic', 'urllib3', 'websockets', 'rich'} & set(sys.modules)))\n"
        "print(*[kind for kind in Record.__subclasses__() if '__dataclass_fields__' in vars(kind)])"
    )
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        server = {"NEARLINE_URL": f"http://127.0.0.1:{silent.getsockname()[1]}", "NEARLINE_TOKEN": "secret"}
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **server}, capture_output=True, text=True, check=True
        )

    assert "Cannot reach" in done.stderr
    assert done.stdout == "7\n\n\n"
