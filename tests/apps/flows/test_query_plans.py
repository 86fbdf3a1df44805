"""A hand-over costs the same however many runs have ended: no statement of it reads through a table that grows."""

import json
import re
from collections.abc import Iterator

import pytest
from django.db import connection

from compute.models import Job, JobEvent
from core import tasks
from experiments.models import Experiment
from flows.models import Attempt, Run, RunEvent, Step
from flows.services import deletions
from scheduler.models import Workload
from tests.apps.flows.test_one_pass import CHAIN, pass_over, start_chain
from tests.factories.flows import World, state_of
from tests.factories.history import copy_run

GROWING = {model._meta.db_table for model in (Attempt, Experiment, Job, JobEvent, Run, RunEvent, Step, Workload)}
PARTIAL = {
    index.name
    for model in (Attempt, Experiment, Job, Run, Workload)
    for index in model._meta.indexes
    if index.condition is not None
}


class Recorded:
    """The statements of a block that read or change rows."""

    def __init__(self) -> None:
        self.statements: list[tuple[str, object]] = []

    def __call__(self, execute, sql, params, many, context):
        if sql.startswith(("SELECT", "UPDATE", "DELETE")):
            self.statements.append((sql, params))
        return execute(sql, params, many, context)


@pytest.mark.django_db(transaction=True)
def test_no_statement_of_a_hand_over_reads_through_a_table_that_grows(world: World, member, project):
    past = world.start(member, project, CHAIN)
    world.finish_all(past)
    assert state_of(past) == "succeeded"
    copy_run(Run.objects.get(pk=past.pk), 2000)
    recorded = Recorded()

    pass_over(world, start_chain(world, member, project), recorded)

    assert len(recorded.statements) > 15
    scans = {table: sql for sql, params in recorded.statements for table in find_scans(sql, params)}
    assert scans == {}


@pytest.mark.django_db(transaction=True)
def test_no_statement_of_a_deletion_reads_through_a_table_that_grows(world: World, member, project):
    run = world.start(member, project, CHAIN)
    world.finish_all(run)
    copy_run(Run.objects.get(pk=run.pk), 2000)
    gone = Run.objects.select_related("flow").get(pk=run.pk)
    recorded = Recorded()

    with connection.execute_wrapper(recorded):
        deletions.foresee_run_deletion(actor=member, run=gone)
        deletions.delete_run(actor=member, run=gone)
        for name in ("flows.remove_deleted", "experiments.remove_deleted", "compute.purge_deleted_jobs"):
            tasks.run(name, {})

    assert Run.objects.count() == 2000
    assert len(recorded.statements) > 40
    scans = {table: sql for sql, params in recorded.statements for table in find_scans(sql, params)}
    assert scans == {}


def test_a_statement_without_an_index_is_found(db):
    assert list(find_scans("SELECT * FROM flows_run WHERE reason = %s", ["a"])) == ["flows_run"]


def find_scans(sql: str, params: object) -> Iterator[str]:
    """Yield the growing tables that a statement reads as a whole."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
            for *_, detail in cursor.fetchall():
                scan = re.match(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?", detail)
                if scan is not None and scan[2] not in PARTIAL:
                    aliases = dict(re.findall(r'"(\w+)" (U\d+)', sql))
                    names = {alias: table for table, alias in aliases.items()}
                    table = names.get(scan[1], scan[1])
                    if table in GROWING:
                        yield table
        else:
            cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
            (plans,) = cursor.fetchone()
            yield from _scans_of((json.loads(plans) if isinstance(plans, str) else plans)[0]["Plan"])


def _scans_of(plan: dict) -> Iterator[str]:
    if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] in GROWING:
        yield plan["Relation Name"]
    for part in plan.get("Plans", ()):
        yield from _scans_of(part)
