"""A service is a use case: keyword-only, with the actor first. What runs without an actor is a worker."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPS = [name for name in ("datasets", "scheduler", "compute", "experiments", "flows") if (ROOT / name).is_dir()]
# Parts of several use cases, which have checked the actor and hold the transaction: by module, with all its functions.
PARTS = {
    "compute.checkpoints": "notes what jobs have saved and lost, for new jobs, logs and the observer",
    "compute.journal": "writes each change of a job's state, for services and workers",
    "compute.node_reports": "writes what a probe found, when a resource is attached and later",
    "compute.queueing": "queues jobs when they are submitted, and once their data is ready",
    "compute.uses": "notes the use of jobs, for connections, commands and the look at idle ones",
    "datasets.cache_events": "writes each change of a cached commit's state, for services and workers",
    "datasets.cache_space": "reserves the space of a site, for services and workers",
    "datasets.manifests": "checks a tree before it is recorded",
    "datasets.packing": "stores a pack that the server itself made",
    "datasets.packs": "claims and confirms packs for every way in which bytes come",
    "datasets.records": "notes each change of a dataset's names, branches and tags, for every service that makes one",
    "datasets.storage_space": "holds the limit of what a project stores, for every way in which uploads come",
    "datasets.tree_writing": "writes the manifests of a tree that the server itself made",
    "scheduler.forecasts": "stores and scores what the app that runs jobs forecasts",
    "experiments.measurements": "writes points of curves, for logs and for programs elsewhere",
    "scheduler.queue_making": "makes the queues and the default pool that projects, pools and new work need",
    "scheduler.resource_nodes": "writes what the app that runs jobs reports of its resources' nodes",
    "scheduler.workloads": "keeps the workloads of the app that runs jobs, inside the transactions of its use cases",
    "scheduler.pool_members": "keeps which resource is in which pool, for pools, node reports and new work",
    "experiments.facts": "keeps the index of what experiments record in step with them",
}
# Other functions without an actor: each becomes a use case, a selector or a worker, so this list only gets shorter.
LEFT = {
    "compute.confinement": {"require_launch", "describe_unconfined", "is_open_to_all"},
    "compute.jobs": {"cancel_many", "withdraw_many"},
    "datasets.branches": {"move_head"},
    "datasets.cache_sites": {"ensure_default_site"},
    "datasets.caches": {"release_holds", "touch", "touch_commit"},
    "datasets.checkouts": {"write_tree"},
    "datasets.damage": {"record_failure", "check_packs", "check_all_packs"},
    "datasets.datasets": {"ensure_internal_dataset"},
    "datasets.stores": {
        *("ensure_default_store", "get_default_store", "open_signed", "find_signed"),
    },
    "datasets.uploads": {"head_of", "prolong"},
}


def find_without_actor(source: str) -> Iterator[str]:
    """Yield the public functions of a module that are no use cases by their signature."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            given = [argument.arg for argument in node.args.kwonlyargs]
            if node.args.posonlyargs or node.args.args or given[:1] != ["actor"]:
                yield node.name


def test_every_service_takes_keywords_with_the_actor_first_but_those_on_a_list_that_shrinks():
    found = {
        f"{app}.{path.stem}": names
        for app in APPS
        for path in sorted((ROOT / app / "services").glob("*.py"))
        if (names := set(find_without_actor(path.read_text())))
    }

    assert {module: names for module, names in found.items() if module not in PARTS} == LEFT
    assert set(PARTS) <= set(found)


def test_planted_functions_without_an_actor_are_found():
    for source in (
        "def collect(): ...",
        "def collect(*, limit): ...",
        "def rename(actor, *, name): ...",
        "def rename(*, name, actor): ...",
    ):
        assert len(list(find_without_actor(source))) == 1, source
    for source in ("def rename(*, actor, name): ...", "def _collect(): ...", "class Request: ..."):
        assert list(find_without_actor(source)) == [], source
