"""What steps recorded."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm
from nearline.cli.group import CommandGroup
from nearline.cli.options import Limit, Project, Yes
from nearline.cli.output import printable
from nearline.cli.session import session_of

if TYPE_CHECKING:
    from nearline.models import Experiment

_LOOKED_AT = 500
_KINDS = {"params": "parameter", "metrics": "metric", "tags": "tag"}
_KEYS = re.compile(r"\b(params|metrics|tags)\.([^\s<>=!(),\"']+)")

app = CommandGroup(help="What steps recorded: parameters, metrics, artifacts.")


@app.command("list")
def list_experiments(
    context: typer.Context,
    *,
    project: Project = None,
    run: Annotated[str | None, typer.Option(help="Only those of this run: an id, or flow#1.")] = None,
    where: Annotated[
        str | None, typer.Option("--filter", help="Such as: metrics.accuracy > 0.9 and params.lr in (0.1, 0.3)")
    ] = None,
    sort: Annotated[str | None, typer.Option(help="Such as -metrics.accuracy, the highest first.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every attempt of every step, also without results.")] = False,
    limit: Limit = 20,
) -> None:
    """List what recorded results, newest first unless sorted.

    Results are metrics, parameters and artifacts, and tags and notes of people.
    """
    session = session_of(context)
    experiments = list(
        session.client().experiments.list(
            project=project, run=run, where=where, sort=sort, limit=limit, recorded=not every
        )
    )
    rows = [
        (
            item.id,
            item.label,
            formats.state(item.state) + formats.simulated(item.is_simulated),
            _results(item),
            formats.ago(item.created_at),
        )
        for item in experiments
    ]
    empty = "There is no experiment." if every else "None was recorded."
    if where and not experiments:
        empty = _explain_nothing(where, session.client().experiments.list(project=project, run=run, limit=_LOOKED_AT))
    session.out.table(experiments, ("EXPERIMENT", "STEP", "STATE", "RESULTS", "STARTED"), rows, empty=empty)


@app.command("show")
def show(
    context: typer.Context, experiment_id: Annotated[str, typer.Argument(metavar="ID", help="The experiment.")]
) -> None:
    """Show what one attempt recorded."""
    session = session_of(context)
    item = session.client().experiments.get(experiment_id)
    fields = [
        ("Experiment", item.id),
        ("Step", item.label),
        ("State", formats.state(item.state) + formats.simulated(item.is_simulated)),
        ("Parameters", _pairs(item.parameters)),
        ("Metrics", _pairs(item.metrics)),
        ("Tags", _pairs(item.tags)),
        ("Data", _texts(item.raw.get("data"))),
        ("Code", _code(item.raw.get("code"))),
        ("Where", item.raw.get("template")),
        ("Artifacts", _texts(item.raw.get("artifacts"))),
        ("Not stored", item.raw.get("artifacts_error")),
        ("Page", item.raw.get("url")),
    ]
    session.out.record(item, fields)


@app.command("delete")
def delete_experiment(
    context: typer.Context,
    experiment_id: Annotated[str, typer.Argument(metavar="ID", help="The experiment.")],
    *,
    yes: Yes = False,
) -> None:
    """Delete an experiment that has ended and is not of a run. It cannot be restored.

    Who created it may, and admins of its project.
    """
    session = session_of(context)
    experiments = session.client().experiments
    item = experiments.get(experiment_id)
    effects = experiments.foresee_deletion(experiment_id)
    session.out.warn(printable(" ".join([f"{item.label} ({item.id}) will be deleted.", *effects])))
    confirm(f"Delete {item.id}?", yes=yes)
    experiments.delete(experiment_id)
    session.out.record({"deleted": item.id}, [("Deleted", item.id)])


@app.command("compare")
def compare(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="The experiments.")],
) -> None:
    """Show parameters and metrics of several experiments side by side."""
    session = session_of(context)
    client = session.client()
    if session.out.is_json:
        session.out.json(client.experiments.compare(ids))
        return
    experiments = [client.experiments.get(one) for one in ids]
    rows: list[tuple[object, ...]] = [
        ("step", *(item.label for item in experiments)),
        ("state", *(formats.state(item.state) for item in experiments)),
    ]
    for kind, values in (
        ("parameter", [item.parameters or {} for item in experiments]),
        ("metric", [item.metrics or {} for item in experiments]),
        ("tag", [item.tags or {} for item in experiments]),
    ):
        for key in sorted({key for each in values for key in each}):
            texts = [_value(each[key]) if key in each else "-" for each in values]
            rows.append((f"{kind} {key}" + ("" if len(set(texts)) == 1 else " *"), *texts))
    session.out.table(experiments, ("", *ids), rows, empty="")
    session.out.note("* differs")


def _explain_nothing(where: str, others: Iterable["Experiment"]) -> str:
    """Say why a filter finds nothing: keys that nobody recorded, with those that read alike, or values."""
    recorded: dict[str, set[str]] = {kind: set() for kind in _KINDS.values()}
    for item in others:
        for kind, values in (("parameter", item.parameters), ("metric", item.metrics), ("tag", item.tags)):
            recorded[kind].update(values or {})
    texts = []
    for word, key in dict.fromkeys(_KEYS.findall(where)):
        kind = _KINDS[word]
        if key not in recorded[kind]:
            alike = difflib.get_close_matches(key, sorted(recorded[kind]), n=3) or sorted(recorded[kind])[:3]
            texts.append(f"No experiment has the {kind} {key}." + (f" There is: {', '.join(alike)}." if alike else ""))
    return " ".join(texts) or "No experiment matches."


def _results(item: "Experiment") -> str:
    return _pairs({**(item.tags or {}), **(item.metrics or {})})


def _pairs(values: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{key}={_value(value)}" for key, value in sorted((values or {}).items()))


def _value(value: object) -> str:
    if value is None or isinstance(value, bool | list | Mapping):
        return json.dumps(value, ensure_ascii=False)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _texts(items: Any) -> str:
    if not isinstance(items, list):
        return str(items or "")
    return ", ".join(_name(item) for item in items)


def _name(item: Any) -> str:
    if not isinstance(item, Mapping):
        return str(item)
    named = item.get("path") or item.get("dataset") or item.get("name")
    commit = str(item.get("commit") or "")[:8]
    return f"{named}@{commit}" if commit and "@" not in str(named) else str(named)


def _code(code: Any) -> str:
    if not isinstance(code, Mapping) or not code.get("commit"):
        return ""
    return str(code["commit"])[:12] + (" with changes that are not committed" if code.get("diff_hash") else "")
