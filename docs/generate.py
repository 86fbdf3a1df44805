"""Write docs/reference from the code, or with --check say which of its files are out of date.

What is listed here cannot be forgotten: error codes, settings, metrics, kinds, the HTTP API and the command line.
"""

import argparse
import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.errors import PlatformError

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
PACKAGES = ("core", "accounts", "web", "datasets", "scheduler", "compute", "experiments", "flows", "config")

HEADER = "<!-- Written by docs/generate.py (`make docs`). Do not edit. -->\n"


def errors() -> str:
    """Return the page of every error code that the server answers with."""
    from web.problems import STATUS  # noqa: PLC0415 (Django must be set up first)

    rows = [(error.code, str(int(STATUS[error.kind])), _first_sentence(error), error.hint) for error in error_classes()]
    rows += [
        ("core.malformed_request", "400", "The body or a parameter does not have the documented form.", ""),
        ("core.method_not_allowed", "405", "The address exists, and does not take this method.", ""),
        ("core.body_too_large", "413", "The body is larger than a request may be.", "Send it in parts."),
        ("core.internal", "500", "Internal error; it has been logged.", ""),
    ]
    intro = (
        "Every failure that is foreseen answers with a problem document (RFC 9457): `status`, `code`, `title`, `hint` "
        "and `details`. The code is stable; programs may rely on it."
    )
    return _page("Errors", intro, _table(("Code", "Status", "Meaning", "What to do"), sorted(rows)))


def error_classes() -> "list[type[PlatformError]]":
    """Return every class of foreseen error in the server that has a code of its own, by code."""
    return sorted((error for error in _all_errors() if "code" in vars(error)), key=lambda error: error.code)


def heirs_without_code() -> "list[type[PlatformError]]":
    """Return the classes of foreseen error that only group others; one that is raised needs a code."""
    return [error for error in _all_errors() if "code" not in vars(error)]


def _all_errors() -> "list[type[PlatformError]]":
    from core.errors import PlatformError  # noqa: PLC0415 (its package must be on the path first)

    import_everything()
    classes: dict[type[PlatformError], None] = {}
    waiting = [PlatformError]
    while waiting:
        heirs = [heir for heir in waiting.pop().__subclasses__() if heir.__module__.partition(".")[0] in PACKAGES]
        waiting += [heir for heir in heirs if heir not in classes]
        classes |= dict.fromkeys(heirs)
    return list(classes)


def settings() -> str:
    """Return the page of every setting."""
    from config.env import Settings  # noqa: PLC0415

    rows = [
        (f"`{item.metadata['variable']}`", _code(item.metadata["default"]), item.metadata["why"])
        for item in fields(Settings)
    ]
    intro = "Settings are environment variables, read in `platform/config/env.py` and nowhere else."
    return _page("Settings", intro, _table(("Variable", "Default", "What it is for"), rows))


def metrics() -> str:
    """Return the page of every metric at /metrics."""
    from prometheus_client.metrics import MetricWrapperBase  # noqa: PLC0415 (Django must be set up first)

    declared = [thing for module in import_everything() for thing in vars(module).values()]
    rows = {_metric_row(thing) for thing in declared if isinstance(thing, MetricWrapperBase)}
    intro = "Served at `/metrics` in the Prometheus format."
    return _page("Metrics", intro, _table(("Name", "Kind", "Labels", "What it counts"), sorted(rows)))


def _metric_row(metric: Any) -> tuple[str, str, str, str]:
    (family,) = metric.describe()
    name = f"{family.name}_total" if family.type == "counter" else family.name
    labels = ", ".join(metric._labelnames)  # noqa: SLF001 (there is no other way to learn them)
    return f"`{name}`", family.type, _code(labels), f"{family.documentation}."


def openapi() -> str:
    """Return the description of the HTTP API."""
    from config.api import api  # noqa: PLC0415

    schema = api.get_openapi_schema(path_prefix="/api/v1/")
    return json.dumps(schema, indent=1, sort_keys=True, default=str) + "\n"


def command_line() -> str:
    """Return the page of every command of the CLI."""
    from docs.cli_page import render  # noqa: PLC0415 (the client must be on the path first)

    return render()


def kinds() -> str:
    """Return the page of every kind of compute resource and cache site."""
    from docs.kinds_page import render  # noqa: PLC0415 (Django must be set up first)

    intro = (
        "A site admin attaches a resource on the page Compute and adds a cache site on the page Cache policy. Both "
        "have a kind, which says what they ask for and what is checked before they are saved."
    )
    return _page("Kinds of resources and cache sites", intro, render(_table))


def flow_schema() -> str:
    """Return the JSON Schema of flow files."""
    from flows.engine.spec import json_schema  # noqa: PLC0415

    return json.dumps(json_schema(), indent=2) + "\n"


FILES: Mapping[str, Callable[[], str]] = {
    "errors.md": errors,
    "settings.md": settings,
    "metrics.md": metrics,
    "openapi.json": openapi,
    "cli.md": command_line,
    "flow.schema.json": flow_schema,
    "kinds.md": kinds,
}


def stale() -> list[str]:
    """Return the names of the files that do not say what the code says."""
    return [name for name, write in FILES.items() if _read(REFERENCE / name) != write()]


def main() -> int:
    """Write the reference, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is out of date")
    arguments = parser.parse_args()
    _set_up()
    outdated = stale()
    if arguments.check:
        for name in outdated:
            sys.stderr.write(f"docs/reference/{name} is out of date. Run `make docs`.\n")
        return 1 if outdated else 0
    REFERENCE.mkdir(exist_ok=True)
    for name in outdated:
        (REFERENCE / name).write_text(FILES[name]())
        sys.stdout.write(f"docs/reference/{name}\n")
    return 0


def import_everything() -> list[ModuleType]:
    """Import and return every module of the server, so that everything that is declared is known."""
    modules = []
    for name in PACKAGES:
        package = importlib.import_module(name)
        names = [module.name for module in pkgutil.walk_packages(package.__path__, f"{name}.")]
        importable = [module for module in names if ".migrations" not in module and not module.endswith(".asgi")]
        modules += [package, *(importlib.import_module(module) for module in importable)]
    return modules


def _set_up() -> None:
    """Load Django without touching any home folder."""
    sys.path[:0] = [str(ROOT), str(ROOT / "platform"), str(ROOT / "client" / "src")]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    os.environ.setdefault("NEARLINE_SECRET_KEY", "only to write the reference")
    os.environ.setdefault("NEARLINE_SECRETS_KEY", "b25seSB0byB3cml0ZSB0aGUgcmVmZXJlbmNlIC4uLi4=")
    import django  # noqa: PLC0415 (the path must be set first)

    django.setup()


def _page(title: str, intro: str, body: str) -> str:
    return f"{HEADER}\n# {title}\n\n{intro}\n\n{body}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |\n" for row in lines
    )


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _first_sentence(thing: object) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]


def _read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
