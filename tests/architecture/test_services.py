"""A service is a use case: keyword-only, with the actor first. What runs without an actor is a worker."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPS = [name for name in ("datasets", "scheduler", "compute", "experiments", "flows") if (ROOT / name).is_dir()]
# Parts of several use cases, which have checked the actor and hold the transaction: by module, with all its functions.
PARTS = {
    "compute.checkpoints": "notes what jobs have saved and lost, for new jobs, logs and the observer",
    "compute.journal": "writes each change of a job's state, for services and workers",
    "compute.losses": "ends the jobs of what does not come back, for resources and for hosts",
    "compute.node_reports": "writes what a probe found, when a resource is attached and later",
    "compute.queueing": "brings jobs into the queue, and what they read to them, for submissions, gates and moves",
    "compute.uses": "notes the use of jobs, for connections, commands and the look at idle ones",
    "datasets.cache_rows": "reserves the space of a site and writes each change of a copy's state, for services and workers",
    "datasets.manifests": "checks a tree before it is recorded",
    "datasets.packs": "claims, confirms and checks packs for every way in which bytes come, and holds the storage limit",
    "datasets.records": "moves branches and notes each change of names, branches and tags, for every service that makes one",
    "datasets.tree_writing": "writes the manifests of a tree that the server itself made",
    "scheduler.forecasts": "stores and scores what the app that runs jobs forecasts",
    "scheduler.resource_nodes": "writes what the app that runs jobs reports of its resources' nodes",
    "scheduler.workloads": "keeps the workloads of the app that runs jobs, inside the transactions of its use cases",
    "scheduler.pool_members": "keeps which resources and queues a pool has, for pools, node reports and new work",
    "experiments.record_writing": "writes points and the index of what is recorded, for logs and for programs elsewhere",
}


def find_functions(source: str) -> dict[str, bool]:
    """Return the public functions of a module, and whether each is a use case by its signature."""
    return {
        node.name: not (node.args.posonlyargs or node.args.args)
        and [argument.arg for argument in node.args.kwonlyargs[:1]] == ["actor"]
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }


def test_every_service_takes_keywords_with_the_actor_first_but_the_parts_of_several():
    functions = {
        f"{app}.{path.stem}": find_functions(path.read_text())
        for app in APPS
        for path in (ROOT / app / "services").glob("*.py")
    }

    assert {module for module, are_uses in functions.items() if not all(are_uses.values())} == set(PARTS)
    assert [module for module in PARTS if any(functions[module].values())] == []


def find_parts(source: str) -> set[str]:
    """Return which of the parts a module imports, or imports names from."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    paths = {f"{node.module}.{alias.name}." for node in nodes for alias in node.names}
    return {part for part in PARTS if any(path.startswith(f"{part.replace('.', '.services.')}.") for path in paths)}


def test_every_part_is_used_by_a_service_or_by_another_app():
    used = {
        part
        for app in APPS
        for path in (ROOT / app).rglob("*.py")
        for part in find_parts(path.read_text())
        if path.parent.name == "services" or not part.startswith(f"{app}.")
    }

    assert used == set(PARTS)


def test_a_part_is_found_however_it_is_imported():
    assert find_parts("from compute.services import checkpoints, jobs") == {"compute.checkpoints"}
    assert find_parts("def f():\n    from compute.services.uses import note_use") == {"compute.uses"}
    assert find_parts("from compute.workers import checkpoints\nfrom datasets.services import pack") == set()


def test_planted_functions_without_an_actor_are_found():
    for source in (
        "def collect(): ...",
        "def collect(*, limit): ...",
        "def rename(actor, *, name): ...",
        "def rename(*, name, actor): ...",
    ):
        assert list(find_functions(source).values()) == [False], source
    assert find_functions("def rename(*, actor, name): ...\ndef _collect(): ...\nclass Request: ...") == {
        "rename": True
    }
