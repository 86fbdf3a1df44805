"""Deleting runs and flows: what is lost is told first, and then it goes, some rows at a time."""

import re
from datetime import timedelta

import pytest
from django.db import connection

from accounts.errors import PermissionDenied
from accounts.models import AuditEntry
from accounts.permissions import Actor, Role
from compute.models import Job
from compute.selectors import jobs as job_selectors
from compute.workers.logs import store_logs
from core import clock, tasks
from core.models import Failure
from datasets.models import TreeHold
from datasets.selectors import datasets as dataset_reads
from datasets.selectors import files
from experiments.models import Experiment, MetricPoint
from experiments.selectors import experiments as experiment_reads
from experiments.services import annotations
from flows.errors import FlowHasLiveRuns, FlowNotFound, RunGoesOn, RunNotFound
from flows.models import Attempt, AttemptInput, Flow, FlowDraft, FlowVersion, Run, RunEvent, Step
from flows.selectors import flows as flow_reads
from flows.selectors import runs as run_reads
from flows.services import deletions, drafts, flows, outputs, runs
from flows.services.drafts import Writing
from flows.workers import advance
from flows.workers.deletions import REMOVE_RUN
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.factories.flows import World, newest_attempt
from tests.factories.history import copy_run
from tests.markup import flat

FLOW = (
    "flow: digits\nsteps: [{name: train, command: c, grid: {C: [1, 10]}}, {name: report, command: c, after: [train]}]"
)
ROWS = (Run, Step, Attempt, AttemptInput, RunEvent, Experiment, MetricPoint)
EFFECTS = [
    "3 steps are deleted with their logs (3 attempts).",
    "Their outputs leave the store (2 files, 18 B). Dataset versions that were kept of them stay.",
    "2 experiments that recorded them are deleted, with 1 metric (2 points) and 1 note.",
    "What its jobs consumed stays in the history.",
    "It cannot be restored.",
]


@pytest.fixture
def run(world: World, member, project) -> Run:
    """A run of which each try of `train` left a model; the first also measured something."""
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()
    for index in (0, 1):
        name = newest_attempt(run, "train", index).job_name
        world.driver_of(name).leave(name, "model.bin", b"weights %d" % index)
    world.finish(run, "train", 0, prints="cnvrg_linechart_loss value: 1\ncnvrg_linechart_loss value: 0.5\n")
    world.finish_all(run)
    row = Experiment.objects.get(source_id=newest_attempt(run, "train").pk)
    annotations.write_note(actor=member, experiment=row, text="Look again.", seen_at=None)
    store_logs()
    return Run.objects.select_related("flow", "project").get(pk=run.pk)


def remove() -> None:
    for name in ("flows.remove_deleted", "experiments.remove_deleted", "compute.purge_deleted_jobs"):
        tasks.run(name, {})


def test_what_is_lost_is_told_and_then_it_goes_with_steps_logs_outputs_and_experiments(run, member):
    kept = outputs.keep_output(actor=member, run=run, step="train", index=1, dataset="models", creates=True)

    assert deletions.foresee_run_deletion(actor=member, run=run) == EFFECTS
    deletions.delete_run(actor=member, run=run)
    deletions.delete_run(actor=member, run=run)

    assert not run_reads.list_runs(actor=member).exists()
    with pytest.raises(RunNotFound):
        run_reads.get_run(actor=member, run_id=run.pk)
    remove()
    assert [model.__name__ for model in ROWS if model.objects.exists()] == []
    assert not TreeHold.objects.exists()
    assert not job_selectors.list_jobs(actor=member).exists()
    assert Job.objects.filter(purged_at__isnull=False).count() == 3
    assert AuditEntry.objects.filter(action="flows.delete_run").count() == 1
    commit = dataset_reads.resolve(member, f"{kept.dataset}@{kept.commit}").commit
    assert b"".join(files.open_file(member, commit, path=b"model.bin").read()) == b"weights 1"


def test_its_jobs_and_experiments_are_shown_no_more_before_anything_is_removed(run, member, make_actor):
    copy_run(run, 2)
    deletions.delete_run(actor=member, run=run)

    listed = job_selectors.list_jobs(actor=member)
    assert set(listed.values_list("attempt__run__number", flat=True)) == {2, 3}
    shown = experiment_reads.list_experiments(actor=member)
    assert shown.exclude(run_id=run.pk).count() == shown.count() == 6

    deletions.delete_flow(actor=make_actor(Role.ADMIN), flow=run.flow)

    assert not listed.all().exists()
    assert not shown.all().exists()
    assert Attempt.objects.count() == 9


def test_other_runs_stay_and_no_number_is_given_twice(run, member):
    copy_run(run, 2)
    newest = Run.objects.select_related("flow").get(number=3)
    deletions.delete_run(actor=member, run=newest)
    remove()

    again = runs.start_run(actor=member, version=run.version, parameters={})

    assert list(Run.objects.order_by("number").values_list("number", flat=True)) == [1, 2, 4]
    assert Step.objects.filter(run=run).count() == 3
    assert Experiment.objects.filter(run_id=run.pk).count() == 3
    assert again.number == 4


def test_the_newest_runs_of_a_flow_are_shown_beside_it_however_many_between_them_were_deleted(run, member):
    copy_run(run, 4)
    for deleted in Run.objects.filter(number__in=(3, 4)):
        deletions.delete_run(actor=member, run=deleted)

    shown = run_reads.list_last_runs(actor=member, flows=[run.flow], count=3)[run.flow_id]

    assert [each.number for each in shown] == [1, 2, 5]


def test_one_that_goes_on_is_refused_in_words(world: World, member, project):
    run = world.start(member, project, FLOW)

    for refused in (deletions.foresee_run_deletion, deletions.delete_run):
        with pytest.raises(RunGoesOn, match="Run #1 of digits has not ended: it is pending") as refusal:
            refused(actor=member, run=run)
        assert refusal.value.hint.startswith("Cancel it first")
    with pytest.raises(FlowHasLiveRuns, match="1 run of digits has not ended: #1"):
        deletions.delete_flow(actor=Actor.system("tests"), flow=run.flow)
    assert run_reads.list_runs(actor=member).exists()
    assert flow_reads.list_flows(actor=member).exists()


def test_that_of_another_is_deleted_by_an_admin_alone(run, viewer, make_actor):
    for actor in (viewer, make_actor(Role.MEMBER, name="other")):
        for refused in (deletions.foresee_run_deletion, deletions.delete_run):
            with pytest.raises(PermissionDenied):
                refused(actor=actor, run=run)
        assert not deletions.may_delete_run(actor=actor, run=run)
    assert Run.objects.get().deleted_at is None

    deletions.delete_run(actor=make_actor(Role.ADMIN), run=run)
    assert Run.objects.get().deleted_at is not None


def test_one_that_was_deleted_meanwhile_is_not_retried(run, member):
    stale = run_reads.get_run(actor=member, run_id=run.pk)
    deletions.delete_run(actor=member, run=run)

    with pytest.raises(RunNotFound):
        runs.retry_run(actor=member, run=stale, step="train")
    assert Run.objects.get().state == "succeeded"

    remove()
    with pytest.raises(RunNotFound):
        runs.retry_run(actor=member, run=stale, step="train")


def test_inputs_that_are_held_and_outputs_that_are_being_stored_are_waited_for(run, member):
    attempt = newest_attempt(run, "train")
    held = AttemptInput.objects.create(attempt=attempt, name="x", reference="a/x", commit_id="c", is_cached=True)
    Experiment.objects.filter(source_id=attempt.pk).update(artifacts_wanted=True)
    deletions.delete_run(actor=member, run=run)
    remove()
    assert Attempt.objects.count() == 3

    AttemptInput.objects.filter(pk=held.pk).update(state="released")
    remove()
    assert Attempt.objects.count() == 3

    Experiment.objects.update(artifacts_wanted=False)
    remove()
    assert not Run.objects.exists()


def test_runs_whose_removal_fails_hold_up_no_other(run, member):
    copy_run(run, 100)
    *failed, last = Run.objects.order_by("pk")
    now = clock.now()
    Run.objects.update(deleted_at=now)
    next_try_at = now + timedelta(minutes=5)
    Failure.objects.bulk_create(
        Failure(kind=REMOVE_RUN, item_id=each.pk, attempts=9, error="!", failed_at=now, next_try_at=next_try_at)
        for each in failed
    )

    remove()

    assert not Run.objects.filter(pk=last.pk).exists()
    assert Run.objects.count() == len(failed) == 100


def test_no_statement_touches_more_rows_than_a_batch(run, member):
    step, attempt = Step.objects.filter(run=run).first(), newest_attempt(run, "train")
    many = 700
    Step.objects.bulk_create(Step(run=run, key="more", index=each, label=f"{each}", position=9) for each in range(many))
    Attempt.objects.bulk_create(
        Attempt(run=run, step=step, number=9 + each, template="t", state="failed", job_name=f"{attempt.pk}-{each}")
        for each in range(many)
    )
    deletions.delete_run(actor=member, run=run)
    sizes: dict[str, int] = {}

    def note(execute, sql, params, many, context):
        words = sql.split()
        if words[0] in {"DELETE", "UPDATE"}:
            name = words[2 if words[0] == "DELETE" else 1].strip('"')
            sizes[name] = max(sizes.get(name, 0), len(params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        remove()

    assert {"flows_attempt", "flows_step", "flows_runevent", "experiments_experiment", "compute_job"} <= sizes.keys()
    assert max(sizes.values()) <= 500
    assert not Run.objects.exists()
    assert not Step.objects.exists()


def test_a_flow_goes_with_its_versions_runs_and_drafts_and_its_name_is_free(run, member, make_actor, project):
    admin = make_actor(Role.ADMIN)
    copy_run(run, 2)
    drafts.keep_draft(actor=member, project=project, key="digits", writing=Writing(FLOW, base_version=1), revision=0)
    flow = run.flow
    told = deletions.foresee_flow_deletion(actor=admin, flow=flow)
    assert told[:2] == [
        "It loses 1 version with the code that came along, and 3 runs.",
        "9 steps of its runs are deleted with their logs (9 attempts).",
    ]
    assert told[-2:] == ["1 draft of it is deleted.", "It cannot be restored."]

    deletions.delete_flow(actor=admin, flow=flow)

    assert not flow_reads.list_flows(actor=member).exists()
    assert not run_reads.list_runs(actor=member).exists()
    assert not FlowDraft.objects.exists()
    with pytest.raises(FlowNotFound):
        runs.start_run(actor=member, version=run.version, parameters={})
    again = flows.save_version(actor=member, project=project, text=FLOW)
    assert (again.flow_id != flow.pk, again.number) == (True, 1)
    for _ in range(3):
        remove()
    assert list(Flow.objects.all()) == [again.flow]
    assert list(FlowVersion.objects.all()) == [again]
    assert [model.__name__ for model in ROWS if model.objects.exists()] == []


def test_only_admins_delete_flows(run, member):
    for refused in (deletions.foresee_flow_deletion, deletions.delete_flow):
        with pytest.raises(PermissionDenied):
            refused(actor=member, flow=run.flow)
    assert Flow.objects.get().deleted_at is None


def test_a_run_that_was_retried_while_its_flow_was_deleted_is_cancelled_and_goes(run, world, make_actor):
    deletions.delete_flow(actor=make_actor(Role.ADMIN), flow=run.flow)
    Run.objects.update(state="running", finished_at=None, retry_requested_at=clock.now(), wake_at=clock.now())

    remove()
    assert Run.objects.get().cancel_requested_at is not None

    advance.advance_all()
    for _ in range(3):
        remove()
    assert not Flow.objects.exists()


def test_the_api_tells_and_deletes(run, member, make_actor):
    assert call(member, "GET", f"/runs/{run.pk}/deletion") == (200, {"effects": EFFECTS})
    assert call(member, "DELETE", f"/runs/{run.pk}").status == 204
    assert call(member, "GET", f"/runs/{run.pk}").status == 404
    admin = make_actor(Role.ADMIN)
    assert call(admin, "GET", "/flows/team-a/digits/deletion").body["effects"][0].endswith("and 0 runs.")
    assert call(admin, "DELETE", "/flows/team-a/digits").status == 204
    assert call(admin, "GET", "/flows/team-a/digits").status == 404


def test_the_pages_ask_and_say_what_is_lost(run, member, viewer, make_actor):
    address, admin = f"/runs/{run.pk}/", make_actor(Role.ADMIN)
    assert f'href="{address}delete/"' in browser_of(member).get(address).content.decode()
    assert f'href="{address}delete/"' not in browser_of(viewer).get(address).content.decode()
    question = flat(browser_of(member).get(f"{address}delete/").content.decode())
    assert "<b>digits run 1</b>is deleted:" in question
    assert '<p class="break"><b>' in question  # names may be longer than a line
    assert re.findall("<li>(.*?)</li>", question)[-len(EFFECTS) :] == EFFECTS

    answer = browser_of(member).post(f"{address}delete/")

    assert answer.url == "/flows/team-a/digits/"
    flow_url = answer.url
    assert "delete/" not in browser_of(member).get(flow_url).content.decode()
    assert f'href="{flow_url}delete/"' in browser_of(admin).get(flow_url).content.decode()
    assert browser_of(admin).post(f"{flow_url}delete/", {"confirmed": "other"}).status_code == 400
    assert browser_of(admin).post(f"{flow_url}delete/", {"confirmed": "digits"}).url == "/flows/?project=team-a"
    assert not flow_reads.list_flows(actor=member).exists()
