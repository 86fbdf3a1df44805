"""No periodic work may end because of one of its items: what loops over rows goes through `core.isolation`."""

from pathlib import Path

from tests.architecture import loops

ROOT = Path(__file__).resolve().parents[2]
APPS = ("datasets", "scheduler", "compute", "experiments", "flows")
OTHER_ROOTS = {"compute.workers.watch:watch_forever"}

# What does not loop over items at all.
TASKS_OF_ONE_ITEM = {
    "compute.tasks:watch_resources": "tells a thread to look",
    "datasets.tasks:expire_uploads": "is one statement",
    "datasets.tasks:reap": "only enqueues; what it enqueues is isolated",
    "datasets.tasks:schedule_scrubs": "only enqueues; what it enqueues is isolated",
    "datasets.tasks:work_on_imports": "only enqueues; what it enqueues is isolated",
    "scheduler.tasks:collect_changes": "is a few statements",
    "scheduler.tasks:collect_receipts": "is a few statements",
    "scheduler.tasks:learn_packing": "writes one row",
    "scheduler.tasks:sample_nodes": "writes one sample of everything, or none",
    "scheduler.tasks:sample_usage": "writes one sample of everything, or none",
}
# Loops inside the work on one item, or inside one batch that `in_batch` does again one by one.
LOOPS_WITHIN_ONE_ITEM = {
    "compute.workers.cleaning:_delete": "the folders of one job",
    "scheduler.services.forecasts:_compare": "the outcomes of one scoring, in its transaction",
    "scheduler.services.pool_members:find_waiting": "what waits on one resource, in its transaction",
    "scheduler.workers.strays:_follow": "the work of one resource, in its transaction",
    "scheduler.workers.usage:_sum_up": "the samples of one span, in its transaction",
    "compute.services.checkpoints:note_interruptions": "the folders of jobs that ended together, in their transaction",
    "compute.services.jobs:cancel_many": "the jobs of one run, in its transaction",
    "compute.services.jobs:open_gates": "the jobs of one plan, or one job, in its transaction",
    "compute.services.jobs:withdraw_many": "the jobs of one run, in its transaction",
    "compute.services.shapes:_find_places": "asks of each resource whether one job fits there",
    "compute.workers.relocation:_list_places": "the places of one job",
    "compute.workers.relocation:_move": "the places of one job",
    "compute.workers.launches:start_again": "the jobs of one resource, in its transaction",
    "compute.workers.launches:start_placed_jobs": "batches, of which each is isolated",
    "compute.workers.watch:_start_missing": "starts a thread for each resource; what that does is isolated",
    "datasets.services.caches:release_holds": "the copies that one holder held, in its transaction",
    "datasets.services.caches:request_cache": "two ways to find space for one copy",
    "datasets.services.caches:request_nearest": "the sites on which there may be a copy of one commit",
    "datasets.workers.cache_hydration:_pause_others_ahead": "the copies that make way for one other, in its transaction",
    "datasets.services.caches:uncache": "names what is made from one copy",
    "datasets.services.packs:claim": "the packs of one upload or import, in its transaction",
    "datasets.workers.in_place:_Work._cancel": "the uploads of one import, each ended by one statement",
    "datasets.workers.in_place:_Work._check": "the packs of one import; a changed file is noted, and stops none",
    "datasets.workers.in_place:_Work._promote": "the packs of one import; a changed file is noted, and stops none",
    "experiments.workers.moves:_move": "the files of one experiment",
    "flows.workers.apply:_Writer._begin_attempts": "the attempts of one plan, in its transaction",
    "flows.workers.apply:_Writer._submit": "the attempts of one plan, in its transaction",
    "experiments.workers.harvest:_logs_of": "pairs the rows of one batch with their jobs, and does no more",
    "experiments.workers.harvest:read_late": "pairs rows that were read with their jobs; what is done for each is isolated",
    "experiments.workers.harvest:_write_records": "one batch of logs, in its transaction",
    "flows.workers.handover:_find_read_in_store": "the templates of one run, of which it asks what is in their rows",
    "scheduler.workers.apply:_evict": "the workloads of one batch, in its transaction",
    "flows.workers.snapshots:_inputs": "the attempts of one run",
    "flows.workers.snapshots:_stored_forecasts": "the attempts of one run",
    "flows.workers.snapshots:load": "the steps of one run",
    "flows.workers.next_data:bring": "reads a step of each kind of one run; what is asked for each is isolated",
    "flows.workers.next_data:release": "looks at rows that were read; what is done for each is isolated",
}


def read_product() -> loops.Code:
    paths = [
        path
        for app in APPS
        for path in [
            ROOT / app / "tasks.py",
            *(ROOT / app / "services").glob("*.py"),
            *(ROOT / app / "workers").glob("*.py"),
            *(ROOT / app / "selectors").glob("*.py"),
        ]
        if path.name != "__init__.py"
    ]
    return loops.read_code({".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text() for path in paths})


def test_every_background_task_does_its_work_through_the_mechanism():
    code = read_product()

    assert len(code.tasks()) > 20
    assert {str(task) for task in code.tasks() if not code.uses_mechanism(task)} == set(TASKS_OF_ONE_ITEM)


def test_every_periodic_loop_over_rows_isolates_its_items():
    code = read_product()
    roots = [*code.tasks(), *(code.function(name) for name in OTHER_ROOTS)]

    services = [function for function in code.reachable(roots) if ".selectors." not in function.module]

    assert code.unguarded_loops(services) == sorted(LOOPS_WITHIN_ONE_ITEM)


TASK = """
from core import tasks
from app.services import work

@tasks.task("app.work", every_s=1.0)
def tick():
    work.do_all()
"""


def find_in(service: str) -> list[str]:
    code = loops.read_code({"app.tasks": TASK, "app.services.work": service})
    assert [str(task) for task in code.tasks()] == ["app.tasks:tick"]
    return code.unguarded_loops(code.reachable(code.tasks()))


def test_a_planted_task_without_the_mechanism_is_found():
    service = "def do(row): pass\ndef do_all():\n    for row in Row.objects.all(): do(row)\n"
    code = loops.read_code({"app.tasks": TASK, "app.services.work": service})

    assert [str(task) for task in code.tasks() if not code.uses_mechanism(task)] == ["app.tasks:tick"]


def test_a_planted_loop_is_found_however_it_is_written():
    one = "def do(row): pass\n"
    for body in (
        "    for row in Row.objects.all(): do(row)",
        "    for row in Row.objects.filter(state=1).order_by('pk'):\n        if row.is_due:\n            do(row)",
        "    rows = Row.objects.all()\n    for row in rows.filter(x=1): do(row)",
        "    ids = list(Row.objects.values_list('pk', flat=True))\n    due = sorted(ids)\n    for pk in due: do(pk)",
        "    return sum(do(row) for row in Row.objects.all())",
        "    return [do(row) for row in Row.objects.all()]",
        "    for row in find_due(): do(row)",
        "    for driver in Row.objects.all(): driver.stop('x')",
        "    for row in Row.objects.all():\n        try:\n            do(row)\n        except ValueError:\n            pass",
    ):
        find_due = "def find_due():\n    rows = Row.objects.all()\n    return rows\n"
        assert find_in(f"{one}{find_due}def do_all():\n{body}\n") == ["app.services.work:do_all"], body


def test_a_planted_loop_is_found_in_helpers_methods_and_what_is_passed_on():
    loop = "        for row in Row.objects.all(): do(row)\n"
    for service in (
        f"def do(row): pass\ndef helper():\n{loop}def do_all():\n    helper()\n",
        f"def do(row): pass\nclass Helper:\n    def helper(self):\n{loop}def do_all():\n    Helper().helper()\n",
        f"def do(row): pass\ndef helper():\n{loop}def do_all():\n    isolation.for_each('k', [1], lambda _: helper())\n",
    ):
        assert [name.rpartition(".")[2].rpartition(":")[2] for name in find_in(service)] == ["helper"], service


def test_a_loop_that_goes_through_the_mechanism_or_does_no_work_is_not_named():
    for body in (
        "    isolation.for_each('kind', Row.objects.all(), do)",
        "    return sum(isolation.for_each('kind', Row.objects.all(), lambda row: do(row)))",
        "    return {row.pk: row for row in Row.objects.all()}",
        "    found = []\n    for row in Row.objects.all(): found.append(row.pk)",
        "    for number in range(3): do(number)",
    ):
        assert find_in(f"def do(row): pass\ndef do_all():\n{body}\n") == [], body
