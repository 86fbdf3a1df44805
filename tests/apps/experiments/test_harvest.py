import json
import math
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.db import connection

from compute.adapters import drivers
from compute.errors import ResourceUnreachable
from compute.models import Job
from compute.selectors import log_polls, outputs
from compute.workers import observe
from core import clock, leases, tasks
from core.models import Lease
from datasets.services import trees
from experiments.engine.recorded import Problem
from experiments.models import Experiment, Fact, MetricLast, MetricPoint, MetricStretch
from experiments.selectors import artifacts as stored
from experiments.selectors import curves, experiments, failures, lists
from experiments.services import annotations
from experiments.workers import artifacts, harvest
from flows.workers import advance
from tests.factories.flows import World, newest_attempt, state_of
from tests.factories.queues import RecordedQueue

FLOW = "flow: f\nsteps: [{name: a, command: c, outputs: ['*.txt', 'models/**']}]"


@pytest.fixture
def running(world: World, member, project):
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()
    return run


def points(key: str) -> list[tuple[int, float | None]]:
    return list(MetricPoint.objects.filter(key=key).order_by("id").values_list("step", "value"))


def lines_of(records: list[dict]) -> str:
    return "".join(f"::nearline {json.dumps(record)}\n" for record in records)


def end_and_keep(world: World, *names: str) -> list:
    """Let jobs end and their outputs be kept; return what was enqueued then."""
    for name in names:
        world.driver_of(name).finish(name)
    observe.observe_all()
    advance.advance_all()
    recorder = RecordedQueue()
    tasks.install(recorder)
    artifacts.store_artifacts()
    return recorder.messages


def test_metrics_are_read_while_the_job_runs_and_none_is_counted_twice(world: World, running):
    name = newest_attempt(running, "a").job_name
    driver = world.driver_of(name)
    driver.print(name, "hello\ncnvrg_linechart_loss value: 1\ncnvrg_linechart_loss value: 0.5\ncnvrg_line")

    harvest.read_running()
    harvest.read_running()
    assert points("loss") == [(0, 1.0), (1, 0.5)]

    driver.print(name, "chart_loss value: 0.25\n")
    harvest.read_running()
    world.finish(running, "a", prints="cnvrg_linechart_loss value: 0.125")

    assert points("loss") == [(0, 1.0), (1, 0.5), (2, 0.25), (3, 0.125)]
    last = MetricLast.objects.get(key="loss")
    assert (last.step, last.value, last.points) == (3, 0.125, 4)


def test_the_end_of_a_log_on_a_cluster_is_asked_for_at_once_and_less_often_while_it_cannot_be_read(
    world: World, running, monkeypatch
):
    monkeypatch.setattr(log_polls, "_polls", {})
    job, asked = newest_attempt(running, "a").job, []
    kind = job.resource.kind
    monkeypatch.setitem(drivers.KINDS, kind, replace(drivers.KINDS[kind], is_remote=True))

    def read_log(name, offset, limit):
        asked.append(second)
        raise ResourceUnreachable("The node does not answer.")

    monkeypatch.setattr(world.driver_of(job.name), "read_log", read_log)
    for second in range(40):
        monkeypatch.setattr(log_polls, "time", SimpleNamespace(monotonic=lambda second=second: second))
        if second == 20:
            Job.objects.filter(pk=job.pk).update(state="succeeded", finished_at=clock.now())
        harvest.read_running() if second < 20 else harvest.read_ended([job.pk])

    assert [second for second in asked if second < 20] == [0, 1, 2, 3, 4, 5, 7, 9, 12, 15, 19]
    assert [second for second in asked if second >= 20] == [20, 21, 22, 23, 24, 25, 27, 29, 32, 35, 39]


def test_what_a_resource_that_is_away_for_long_does_not_tell_is_read_later(world: World, running, member):
    name = newest_attempt(running, "a").job_name
    driver, job = world.driver_of(name), newest_attempt(running, "a").job
    driver.print(name, "cnvrg_linechart_loss value: 1\n")
    harvest.read_running()
    driver.print(name, "cnvrg_linechart_loss value: 0.5\n")
    ended_at = clock.now() - timedelta(minutes=6)
    Job.objects.filter(pk=job.pk).update(state="succeeded", finished_at=ended_at)
    driver.is_away = True

    read = harvest.read_ended([job.pk])

    experiment = Experiment.objects.get(job=job.pk)
    assert (list(read.done), points("loss")) == ([job.pk], [(0, 1.0)])
    (problem,) = experiment.problems.first
    assert problem.reason.startswith("the end of the log could not be read for 5 minutes: ")
    (failure,) = failures.list_failures(actor=member, experiment=experiment)
    assert failure.message.startswith("The platform could not read the end of the log of f #1 · a: ")

    driver.is_away = False
    with clock.frozen_at(clock.now() + timedelta(minutes=10)):
        driver.finish(name)
        harvest.read_late()
        harvest.read_late()

    experiment.refresh_from_db()
    assert points("loss") == [(0, 1.0), (1, 0.5)]
    assert experiment.problems.count == 0
    assert failures.list_failures(actor=member, experiment=experiment) == []


def test_two_harvesters_at_once_count_each_point_once(world: World, running):
    name = newest_attempt(running, "a").job_name
    world.driver_of(name).print(name, "cnvrg_linechart_loss value: 1\n")
    (stale,) = harvest._logs_of([newest_attempt(running, "a").job_id])
    first, second = harvest._read(stale), harvest._read(stale)

    harvest._write([first], datetime.now(UTC))
    harvest._write([second], datetime.now(UTC))

    assert points("loss") == [(0, 1.0)]


def test_parameters_and_tags_of_the_log_are_kept(world: World, running):
    world.finish(
        running,
        "a",
        prints='::nearline {"kind": "param", "key": "C", "value": 10}\n'
        '::nearline {"kind": "tag", "key": "stage", "value": "final"}\n'
        '::nearline {"kind": "metric", "key": "x", "value": "nan"}\n'
        '::nearline {"kind": "metric", "key": "y", "value": "-inf"}\n',
    )

    experiment = Experiment.objects.get()
    assert (experiment.logged, experiment.tags) == ({"C": 10}, {"stage": "final"})
    assert points("x") == [(0, None)]
    assert points("y") == [(0, -math.inf)]


@pytest.mark.parametrize("kind", ["param", "tag", "metric"])
def test_a_log_records_no_more_names_than_an_experiment_holds_and_the_rest_is_told(world: World, running, kind):
    first, rest = (
        [{"kind": kind, "key": f"k{number:04}", "value": 1} for number in part]
        for part in (range(990), range(980, 1010))
    )
    name = newest_attempt(running, "a").job_name
    world.driver_of(name).print(name, lines_of(first))
    harvest.read_running()
    world.driver_of(name).print(name, lines_of(rest) + lines_of(rest))

    harvest.read_running()

    row = Experiment.objects.get()
    names = {"param": row.logged, "tag": row.tags, "metric": set(row.metrics.values_list("key", flat=True))}[kind]
    assert sorted(names) == [f"k{number:04}" for number in range(1000)]
    assert (row.problems.count, row.problems.first[0]) == (
        20,
        Problem(f"the experiment records no more of this kind ({kind})", "k1000"),
    )
    assert Fact.objects.filter(key="k1000").count() == 0


def test_of_a_log_with_very_many_names_those_are_recorded_that_fit(world: World, running):
    name = newest_attempt(running, "a").job_name
    world.driver_of(name).print(name, "".join(f"cnvrg_tag_{number}: 1\n" for number in range(20_000)))

    for _ in range(3):
        harvest.read_running()

    assert Experiment.objects.get().problems.count == 19_000


def test_a_very_long_log_is_read_in_several_calls_where_others_wait_to_be_looked_at(world: World, running):
    name, job_id = newest_attempt(running, "a").job_name, newest_attempt(running, "a").job_id
    filler = "text\n" * 300_000
    world.driver_of(name).print(name, "".join(f"cnvrg_linechart_x value:{number}\n{filler}" for number in range(2)))
    world.driver_of(name).finish(name)
    observe.observe_all()

    done = [set(harvest.read_ended([job_id], most_pieces=2).done) for _ in range(2)]

    assert done == [set(), {job_id}]
    assert points("x") == [(0, 0.0), (1, 1.0)]


def test_a_log_records_no_more_bytes_than_an_experiment_holds(world: World, running):
    large = [{"kind": "param", "key": f"k{number}", "value": "x" * 5000} for number in range(300)]

    world.finish(running, "a", prints=lines_of(large))

    row = Experiment.objects.get()
    assert (len(row.logged), len(json.dumps(row.logged)) <= 2**20, row.problems.count) == (209, True, 91)


def test_a_fault_with_one_output_is_its_own_and_the_run_is_told_when_nothing_else_goes_on(
    world: World, member, project
):
    run = world.start(member, project, "flow: f\nsteps: [{name: a, command: c, grid: {n: [1, 2, 3]}}]")
    world.turn()
    world.turn()
    folders = [world.driver_of(name).open_output(name).host_folder for name in world.running()]
    (folders[0] / "report.txt").write_text("fine")
    shutil.rmtree(folders[1])
    (folders[2] / "late.txt").write_text("fine")

    messages = end_and_keep(world, *world.running()[:2])

    assert messages == []
    assert [bool(row.artifacts_error) for row in Experiment.objects.order_by("step_index")] == [False, True, False]
    (files,) = outputs.list_first_files(actor=member, jobs=Job.objects.filter(output_files__gt=0), limit=2).values()
    assert [file.path for file in files] == ["report.txt"]

    messages = end_and_keep(world, *world.running())

    assert messages == [("flows.advance", {"run_id": run.pk})]
    assert not Experiment.objects.filter(artifacts_wanted=True).exists()


def test_an_empty_output_is_known_to_be_kept_when_its_job_ends_and_the_run_waits_for_nothing(
    world: World, running, member
):
    job_name = newest_attempt(running, "a").job_name

    world.finish(running, "a")

    job = Job.objects.get(name=job_name)
    assert (job.output_state, job.output_files, job.left_nothing) == ("stored", 0, True)
    assert state_of(running) == "succeeded"
    assert not Experiment.objects.filter(artifacts_wanted=True).exists()


def test_outputs_are_kept_by_hash_before_the_run_counts_as_finished(world: World, running, member):
    attempt = newest_attempt(running, "a")
    driver = world.driver_of(attempt.job_name)
    folder = driver.open_output(attempt.job_name).host_folder
    (folder / "models").mkdir()
    (folder / "models" / "best.bin").write_bytes(b"model")
    (folder / "report.txt").write_text("fine")
    (folder / "scratch.tmp").write_text("not wanted")
    (folder / "passwords.txt").symlink_to("/etc/passwd")

    world.finish(running, "a")
    assert state_of(running) == "running"
    world.turn()

    assert state_of(running) == "succeeded"
    experiment = experiments.get_experiment(actor=member, experiment_id=Experiment.objects.get().pk)
    files = stored.list_artifacts(actor=member, experiment=experiment)
    assert [(file.path, file.size_bytes) for file in files] == [("models/best.bin", 5), ("report.txt", 4)]
    _, pieces = stored.open_artifact(actor=member, experiment=experiment, path="models/best.bin")
    assert b"".join(pieces) == b"model"
    artifacts.store_artifacts()
    assert stored.count_artifacts(actor=member, experiment=experiment) == 2


def test_an_output_that_takes_long_is_stored_by_one_worker(world: World, running, monkeypatch):
    attempt = newest_attempt(running, "a")
    driver = world.driver_of(attempt.job_name)
    folder = driver.open_output(attempt.job_name).host_folder
    for number in range(3):
        (folder / f"{number}.txt").write_bytes(b"model")
    monkeypatch.setattr(artifacts, "_MOMENT_S", 0.0)
    opened, store_tree = [], trees.store_tree

    def look_again_at_each(*, files, **options):
        def watched():
            for file in files:
                opened.append(file.path)
                artifacts.store_artifacts()
                yield file

        return store_tree(files=watched(), **options)

    monkeypatch.setattr(trees, "store_tree", look_again_at_each)

    world.finish(running, "a")
    world.turn()

    assert opened == [b"0.txt", b"1.txt", b"2.txt"]
    assert (state_of(running), Job.objects.get(name=attempt.job_name).output_files) == ("succeeded", 3)
    assert not Lease.objects.filter(name__startswith="output:").exists()


def test_an_output_whose_worker_died_is_stored_once_its_claim_has_run_out(world: World, running):
    attempt = newest_attempt(running, "a")
    folder = world.driver_of(attempt.job_name).open_output(attempt.job_name).host_folder
    (folder / "best.txt").write_bytes(b"model")
    leases.take_named(f"output:{Experiment.objects.get(source_id=attempt.pk).pk}", holder="dead", for_s=900)

    with clock.frozen_at(clock.now()) as move_to:
        world.finish(running, "a")
        world.turn()
        assert state_of(running) == "running"
        move_to(clock.now() + timedelta(seconds=900))
        world.turn()
        world.turn()

    assert state_of(running) == "succeeded"


def test_many_points_are_thinned_out_without_losing_the_extremes(world: World, running, member):
    experiment = Experiment.objects.get()
    rows = [
        MetricPoint(experiment=experiment, key="loss", step=n, value=100.0 if n == 7777 else 1.0, at=datetime.now(UTC))
        for n in range(10_000)
    ]
    MetricPoint.objects.bulk_create(rows)

    curve = curves.read_curve(actor=member, experiment=experiment, key="loss")

    assert curve.total == 10_000
    assert len(curve.points) <= curves.MAX_POINTS
    assert max(point.value for point in curve.points) == 100.0
    assert curve.points[-1].step == 9999


def test_a_tag_that_somebody_adds_while_the_log_is_read_is_kept(world: World, running, member):
    attempt = newest_attempt(running, "a")
    world.driver_of(attempt.job_name).print(attempt.job_name, "cnvrg_tag_split: patient\n")
    (log,) = harvest._logs_of([attempt.job_id])
    reading = harvest._read(log)
    annotations.set_tag(actor=member, experiment=Experiment.objects.get(), key="best")

    harvest._write([reading], clock.now())

    assert Experiment.objects.get().tags == {"best": "", "split": "patient"}


def test_what_is_recorded_is_found_by_the_filter_at_once(world: World, running, member):
    name = newest_attempt(running, "a").job_name
    lines = ['{"kind": "param", "key": "lr", "value": 0.1}', '{"kind": "metric", "key": "accuracy", "value": 0.9}']
    world.driver_of(name).print(name, "".join(f"::nearline {line}\n" for line in lines) + "cnvrg_tag_best: yes\n")

    harvest.read_running()

    where = "params.lr = 0.1 and metrics.accuracy > 0.5 and tags.best = yes"
    assert lists.find(actor=member, where=where).count() == 1
    assert lists.list_keys(actor=member) == {
        "params": ["lr"], "metrics": ["accuracy"], "tags": ["best"], "data": []
    }  # fmt: skip


def test_a_long_curve_is_read_from_its_stretches_with_its_extremes(world: World, running, member):
    name = newest_attempt(running, "a").job_name
    values = [math.sin(step / 50) for step in range(9000)]
    values[777], values[7777], values[4000] = -9.5, 8.5, math.nan
    lines = [
        f'::nearline {{"kind":"metric","key":"loss","value":{json.dumps(str(v) if math.isnan(v) else v)}}}\n'
        for v in values
    ]
    for start in range(0, 9000, 1234):
        world.driver_of(name).print(name, "".join(lines[start : start + 1234]))
        harvest.read_running()
    experiment = Experiment.objects.get()

    (thin,) = curves.read_curves(actor=member, experiments=[experiment], key="loss", most=1500)
    MetricPoint.objects.all().delete()  # such a curve is read without its points
    (again,) = curves.read_curves(actor=member, experiments=[experiment], key="loss", most=1500)

    assert again == thin
    assert thin.total == 9000
    assert len(thin.points) <= 1500
    by_step = {point.step: point.value for point in thin.points}
    assert list(by_step) == sorted(by_step)
    assert (by_step[777], by_step[7777], by_step[8999]) == (-9.5, 8.5, values[8999])
    assert min(by_step.values()) == -9.5
    assert max(by_step.values()) == 8.5


def test_the_queries_of_a_curve_do_not_grow_with_its_points(world: World, running, member, django_assert_num_queries):
    name = newest_attempt(running, "a").job_name
    world.driver_of(name).print(name, "cnvrg_linechart_loss value: 1\n" * 20_000)
    harvest.read_running()
    experiment = Experiment.objects.get()

    with django_assert_num_queries(2):
        (curve,) = curves.read_curves(actor=member, experiments=[experiment], key="loss")

    assert curve.total == 20_000
    assert MetricStretch.objects.filter(level=0).count() == 2500
    assert MetricStretch.objects.filter(level=1).count() == 625


def test_logs_with_many_points_are_written_in_transactions_that_others_need_not_wait_for(world: World, member, project):
    world.start(member, project, FLOW.replace("outputs:", "grid: {seed: [1, 2, 3]}, outputs:"))
    world.turn()
    world.turn()
    for job_name in Job.objects.values_list("name", flat=True):
        world.driver_of(job_name).print(job_name, "cnvrg_linechart_loss value: 1\n" * 8_000)
    totals: list[int] = []

    def note_commits(execute, sql, *arguments):
        result = execute(sql, *arguments)
        if sql.startswith("RELEASE SAVEPOINT"):
            totals.append(MetricPoint.objects.count())
        return result

    with connection.execute_wrapper(note_commits):
        harvest.read_running()

    assert sorted({*totals} - {0}) == [8_000, 16_000, 24_000]
