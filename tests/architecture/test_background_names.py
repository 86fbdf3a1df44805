"""Background tasks are enqueued by name, across layers that may not import each other; so the names are checked here."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from core.tasks import Task, registered
from docs import generate

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("platform", "datasets", "scheduler", "compute", "experiments", "flows")
FUNCTIONS = {"enqueue_on_commit", "enqueue", "enqueue_reliably"}
THE_PORT = ROOT / "platform" / "core" / "tasks.py"
# What is asked for again by itself: each look at a resource stops again what is to be stopped, and whoever reads a
# damaged pack next finds it.
REPEATED = {"compute.stop", "datasets.check_pack"}
# Which apps stand below: only their events may be followed.
APPS_BELOW = {
    "flows": {"experiments", "compute", "scheduler", "datasets", "accounts"},
    "experiments": {"compute", "scheduler", "datasets", "accounts"},
    "compute": {"scheduler", "datasets", "accounts"},
    "datasets": {"accounts"},
    "scheduler": {"accounts"},
}


class Call(NamedTuple):
    """One place in the code that enqueues: where it is, by which function, the task's name, the ids that it sends."""

    where: str
    by: str
    name: str | None
    ids: frozenset[str]


def find_calls(path: Path) -> Iterator[Call]:
    for call in ast.walk(ast.parse(path.read_text())):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute | ast.Name):
            continue
        by = ast.unparse(call.func).removeprefix("tasks.")
        if by in FUNCTIONS:
            first = call.args[0] if call.args else None
            name = first.value if isinstance(first, ast.Constant) else None
            ids = frozenset(keyword.arg or "**" for keyword in call.keywords)
            yield Call(f"{path.relative_to(ROOT)}:{call.lineno}", by, name, ids)


def all_calls() -> list[Call]:
    paths = [
        path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")) if "node_modules" not in path.parts
    ]
    return [call for path in paths if path != THE_PORT for call in find_calls(path)]


@pytest.fixture(scope="module")
def tasks() -> dict[str, Task]:
    generate.import_everything()
    return registered()


def test_every_name_that_is_enqueued_is_written_out_and_registered(tasks):
    calls = all_calls()

    assert calls
    assert [call for call in calls if call.name not in tasks] == []


def test_every_message_sends_exactly_the_ids_that_its_handler_needs(tasks):
    wrong = []
    for call in all_calls():
        parameters = inspect.signature(tasks[call.name].handler).parameters.values()
        needed = {parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty}
        known = {parameter.name for parameter in parameters}
        if not needed <= call.ids <= known:
            wrong.append(call)

    assert wrong == []


def test_every_task_with_a_period_or_an_event_can_be_called_without_ids(tasks):
    for task in tasks.values():
        if task.every_s is not None or task.on:
            inspect.signature(task.handler).bind()


def test_every_task_is_named_after_the_app_that_has_it(tasks):
    for task in tasks.values():
        assert task.handler.__module__.partition(".")[0] == task.name.partition(".")[0], task.name


def test_every_task_follows_events_of_apps_below_its_own(tasks):
    followed = {(task.name, event) for task in tasks.values() for event in task.on}

    assert followed
    for name, event in followed:
        assert event.partition(".")[0] in APPS_BELOW[name.partition(".")[0]], name


def test_work_that_is_enqueued_is_also_found_by_a_periodic_run(tasks):
    """A message may be lost: each task has a period, or a periodic task enqueues what it finds so that nothing is lost."""
    found = {call.name for call in all_calls() if call.by == "enqueue_reliably"}
    periodic = {name for name, task in tasks.items() if task.every_s is not None}
    enqueued = {call.name for call in all_calls()} | {task.name for task in tasks.values() if task.on}

    assert enqueued - periodic - found - REPEATED == set()
