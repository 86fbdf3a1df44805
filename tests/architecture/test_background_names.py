"""Background work is rung for by name, across layers that may not import each other; so the names are checked here."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from core import doorbell
from docs import generate

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("platform", "datasets", "scheduler", "compute", "flows")
RINGS = {"enqueue_on_commit", "ring", "ring_surely"}
THE_PORT = ROOT / "platform" / "core" / "doorbell.py"
# What another tick repeats by itself: each look at a resource stops again what is to be stopped.
REPEATED = {"compute.stop"}


class Ring(NamedTuple):
    """One place in the code that rings: where it is, by which function, the name that it uses, the ids that it sends."""

    where: str
    by: str
    name: str | None
    ids: frozenset[str]


def find_rings(path: Path) -> Iterator[Ring]:
    for call in ast.walk(ast.parse(path.read_text())):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute | ast.Name):
            continue
        by = ast.unparse(call.func).removeprefix("doorbell.")
        if by in RINGS:
            first = call.args[0] if call.args else None
            name = first.value if isinstance(first, ast.Constant) else None
            ids = frozenset(keyword.arg or "**" for keyword in call.keywords)
            yield Ring(f"{path.relative_to(ROOT)}:{call.lineno}", by, name, ids)


def all_rings() -> list[Ring]:
    paths = [
        path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")) if "node_modules" not in path.parts
    ]
    return [ring for path in paths if path != THE_PORT for ring in find_rings(path)]


@pytest.fixture(scope="module")
def tasks() -> dict[str, doorbell.Task]:
    generate.import_everything()
    return doorbell.registered()


def test_every_name_that_is_rung_is_written_out_and_registered(tasks):
    rings = all_rings()

    assert rings
    assert [ring for ring in rings if ring.name not in tasks] == []


def test_every_ring_sends_exactly_the_ids_that_its_handler_needs(tasks):
    wrong = []
    for ring in all_rings():
        parameters = inspect.signature(tasks[ring.name].handler).parameters.values()
        needed = {parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty}
        known = {parameter.name for parameter in parameters}
        if not needed <= ring.ids <= known:
            wrong.append(ring)

    assert wrong == []


def test_every_task_with_a_tick_can_be_called_without_ids(tasks):
    for task in tasks.values():
        if task.every_s is not None:
            inspect.signature(task.handler).bind()


def test_every_task_is_named_after_the_app_that_has_it(tasks):
    for task in tasks.values():
        assert task.handler.__module__.partition(".")[0] == task.name.partition(".")[0], task.name


def test_work_that_is_rung_for_is_also_found_by_a_tick(tasks):
    """A ring may be lost: each task has a tick of its own, or a tick rings for what it finds so that nothing is lost."""
    found = {ring.name for ring in all_rings() if ring.by == "ring_surely"}
    ticking = {name for name, task in tasks.items() if task.every_s is not None}

    assert {ring.name for ring in all_rings()} - ticking - found - REPEATED == set()
