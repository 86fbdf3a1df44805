"""Logs in the store: what is there outlives the resource on which the job ran."""

from datetime import datetime, timedelta

import pytest

from compute.errors import ResourceUnreachable
from compute.models import Job, StoredLogChunk
from compute.selectors import failures, jobs, logs, stored_logs
from compute.workers import cleaning, launches, observe
from compute.workers import logs as log_storing
from compute.workers.logs import store_logs
from core import clock, isolation
from datasets.models import TreeHold
from datasets.selectors import trees
from tests.factories import compute as make
from tests.factories.browsers import browser_of
from tests.factories.datasets import make_store

LONG_AGO = timedelta(minutes=6)


@pytest.fixture(autouse=True)
def _store(db, home):
    make_store(home / "store")


@pytest.fixture
def job(project, template, driver) -> Job:
    [job] = make.submit(project, template, "train")
    make.start([job])
    return job


def lines(first: int, count: int, text: str = "step {}: nothing to see\n") -> str:
    return "".join(text.format(number) for number in range(first, first + count))


def finish(driver, resource, name: str = "train", **end) -> None:
    driver.finish(name, **end)
    observe.observe_resource(resource_id=resource.pk)


def fresh(job: Job) -> Job:
    return Job.objects.select_related("resource").get(pk=job.pk)


def chunks_of(job: Job) -> list[tuple[int, int]]:
    return list(StoredLogChunk.objects.filter(job=job).order_by("offset").values_list("offset", "size_bytes"))


def read_all(viewer, job: Job) -> bytes:
    data, chunk = b"", None
    while chunk is None or chunk.data:
        chunk = jobs.read_log(actor=viewer, job=fresh(job), offset=len(data))
        data += chunk.data
    assert (chunk.is_complete, chunk.size_bytes) == (True, len(data))
    return data


def test_the_log_of_an_ended_job_is_read_after_its_resource_is_gone(job, driver, resource, viewer):
    driver.print("train", "one\ntwo")
    finish(driver, resource)

    store_logs()
    driver.is_away = True

    assert read_all(viewer, job) == b"one\ntwo"
    assert logs.read_before(actor=viewer, job=fresh(job), before=None, limit=100).text.text == "one\ntwo"
    assert logs.find_in_log(actor=viewer, job=fresh(job), text="TWO").offsets == [4]


def test_the_log_of_an_ended_job_is_read_after_its_files_were_deleted(job, driver, resource, viewer):
    driver.print("train", "one\n")
    finish(driver, resource)
    store_logs()

    with clock.frozen_at(clock.now() + timedelta(days=15)):
        deleted = cleaning.delete_old_files()

    assert (deleted, driver.jobs.logs) == (1, {})
    assert read_all(viewer, job) == b"one\n"


def test_the_log_of_an_older_job_that_could_not_be_read_before_is_stored_with_those_of_others(
    job, project, template, driver, resource
):
    [other] = make.submit(project, template, "other")
    make.start([other])
    for name in ("train", "other"):
        driver.print(name, "one\n")
        finish(driver, resource, name)
    driver.is_away = True
    isolation.for_each(failures.STORE_LOG, [job], lambda each: jobs.read_live_log(each, 0, 0))
    driver.is_away = False

    with clock.frozen_at(clock.now() + LONG_AGO):
        store_logs()

    assert chunks_of(job) == chunks_of(other) == [(0, 4)]


def test_files_stay_until_the_log_is_in_the_store(job, driver, resource):
    driver.print("train", "one\n")
    finish(driver, resource)

    with clock.frozen_at(clock.now() + timedelta(days=15)):
        assert cleaning.delete_old_files() == 0

    assert driver.jobs.logs == {"train": b"one\n"}


def test_a_log_is_stored_while_its_job_runs_and_the_rest_is_read_from_the_resource(job, driver, resource, viewer):
    driver.print("train", "one\ntw")
    store_logs()
    before = chunks_of(job)
    with clock.frozen_at(clock.now() + LONG_AGO):
        store_logs()
    driver.print("train", "o\nthree\n")

    part = jobs.read_log(actor=viewer, job=fresh(job), offset=0)
    rest = jobs.read_log(actor=viewer, job=fresh(job), offset=part.next_offset)

    assert (before, chunks_of(job)) == ([], [(0, 4)])
    assert (part.data, part.size_bytes, part.is_complete) == (b"one\n", 14, False)
    assert (rest.data, rest.next_offset, rest.is_complete) == (b"two\nthree\n", 14, False)


def test_a_log_that_two_store_at_once_stays_held(job, driver, resource):
    driver.print("train", "one\n")
    store_tree, later = log_storing.trees.store_tree, []

    def store_after_another(**options):
        if not later:
            later.append("the rest")
            driver.print("train", "two\n")
            finish(driver, resource)
            store_logs()
        return store_tree(**options)

    with pytest.MonkeyPatch.context() as patch, clock.frozen_at(clock.now() + LONG_AGO):
        patch.setattr(log_storing.trees, "store_tree", store_after_another)
        store_logs()

    assert chunks_of(job) == [(0, 8)]
    assert TreeHold.objects.get().tree.root == StoredLogChunk.objects.get().root


def test_a_resource_that_does_not_answer_withholds_only_what_is_not_stored(job, driver, viewer):
    driver.print("train", "one\n")
    with clock.frozen_at(clock.now() + LONG_AGO):
        store_logs()
    driver.print("train", "two\n")
    driver.is_away = True

    part = jobs.read_log(actor=viewer, job=fresh(job), offset=0)

    assert (part.data, part.next_offset, part.size_bytes, part.is_complete) == (b"one\n", 4, 4, False)
    with pytest.raises(ResourceUnreachable):
        jobs.read_log(actor=viewer, job=fresh(job), offset=4)


def test_the_page_says_until_when_the_log_of_a_resource_that_does_not_answer_is_there(job, driver, member):
    client = browser_of(member)
    before = client.get("/jobs/train/log/").json()
    driver.print("train", "one\n")
    with clock.frozen_at(clock.now() + LONG_AGO):
        stored_at = clock.now()
        store_logs()
    driver.is_away = True

    stored = client.get("/jobs/train/log/").json()
    rest = client.get("/jobs/train/log/?offset=4", headers={"Accept": "application/json"})

    assert (before["stored_at"], stored["text"]) == (None, "one\n")
    assert datetime.fromisoformat(stored["stored_at"]) == stored_at.replace(
        microsecond=stored_at.microsecond // 1000 * 1000
    )
    assert (rest.status_code, rest.json()["code"]) == (503, "compute.resource_unreachable")


def test_a_job_that_prints_much_is_stored_at_once_in_chunks_of_whole_lines(job, driver, resource, viewer):
    text = lines(0, 100_000)
    driver.print("train", text)

    store_logs()
    stored = fresh(job).log_bytes
    finish(driver, resource)
    store_logs()

    assert 2**20 < stored <= len(text)
    assert all(size <= 2**20 for _, size in chunks_of(job))
    assert read_all(viewer, job) == text.encode()
    for offset, size in chunks_of(job):
        assert text[offset + size - 1] == "\n"


def test_a_line_without_an_end_is_stored_too(job, driver, resource, viewer):
    driver.print("train", "x" * 3_000_000)
    store_logs()
    finish(driver, resource)
    store_logs()

    assert read_all(viewer, job) == b"x" * 3_000_000


def test_a_job_that_prints_little_for_long_has_few_chunks_and_one_hold(job, driver, resource, viewer):
    now = clock.now()
    for number in range(1, 6):
        driver.print("train", lines(number, 1))
        with clock.frozen_at(now + number * LONG_AGO):
            store_logs()
    assert len(chunks_of(job)) == 1
    assert TreeHold.objects.filter(holder__startswith="log:").count() == 1

    finish(driver, resource)
    store_logs()

    assert read_all(viewer, job) == lines(1, 5).encode()
    assert TreeHold.objects.filter(holder__startswith="log:").count() == 1


def test_the_logs_of_many_short_jobs_are_stored_as_one_tree(project, template, driver, resource, viewer):
    submitted = make.submit(project, template, *(f"job-{number}" for number in range(20)))
    make.start(submitted)
    for job in submitted:
        driver.print(job.name, f"I am {job.name}\n")
        driver.finish(job.name)
    observe.observe_resource(resource_id=resource.pk)

    store_logs()

    assert StoredLogChunk.objects.values("root").distinct().count() == 1
    assert [read_all(viewer, job) for job in submitted] == [f"I am {job.name}\n".encode() for job in submitted]


def test_storing_again_changes_nothing(job, driver, resource):
    driver.print("train", "one\n")
    finish(driver, resource)
    store_logs()
    before = (chunks_of(job), fresh(job).log_stored_at)

    store_logs()

    assert (chunks_of(job), fresh(job).log_stored_at) == before


def test_what_a_job_printed_before_its_eviction_is_in_the_same_log(job, driver, resource, viewer):
    driver.print("train", "first run\n")
    Job.objects.update(evictions=1, token="second")
    driver.jobs.logs["train~2"] = b"second run\n"
    driver.jobs.reports["train~2"] = driver.jobs.reports["train"]
    driver.finish("train~2")
    Job.objects.update(state="succeeded", finished_at=clock.now())

    store_logs()
    driver.is_away = True

    assert read_all(viewer, job) == b"first run\nsecond run\n"


def test_the_rest_of_a_log_that_its_resource_does_not_call_complete_is_waited_for(job, driver, resource, viewer):
    driver.print("train", "one\n")
    finish(driver, resource)
    report = driver.jobs.reports.pop("train")

    store_logs()
    store_logs()
    before = (fresh(job).log_bytes, fresh(job).log_stored_at)
    driver.print("train", "two\n")
    driver.jobs.reports["train"] = report
    store_logs()

    assert before == (4, None)
    assert fresh(job).log_stored_at is not None
    assert read_all(viewer, job) == b"one\ntwo\n"


def test_nothing_more_is_waited_for_of_the_log_of_a_job_that_was_lost(job, driver, resource, viewer):
    driver.print("train", "one\n")
    driver.vanish("train")
    Job.objects.update(lease_expires_at=None)
    observe.observe_resource(resource_id=resource.pk)

    store_logs()

    assert fresh(job).state == "lost"
    assert read_all(viewer, job) == b"one\n"


def test_what_there_is_of_a_log_is_all_of_it_when_nothing_has_followed_for_an_hour(job, driver, resource, viewer):
    driver.print("train", "one\n")
    finish(driver, resource)
    driver.vanish("train")

    with clock.frozen_at(clock.now() + timedelta(hours=1)):
        store_logs()

    assert fresh(job).log_stored_at is not None
    assert read_all(viewer, job) == b"one\n"


def test_a_job_that_never_ran_has_nothing_to_store(project, template, viewer):
    [job] = make.submit(project, template, "waits")
    Job.objects.update(state="cancelled", finished_at=clock.now())

    store_logs()

    assert fresh(job).log_stored_at is not None
    assert read_all(viewer, job) == b""


def test_the_log_of_a_job_that_came_up_while_the_platform_restarted_is_stored(
    project, template, driver, resource, viewer
):
    [job] = make.submit(project, template, "train")
    make.place([job])
    launches.start_placed_jobs()
    launches.void_leases()
    driver.print("train", "one\n")
    finish(driver, resource)

    store_logs()

    assert read_all(viewer, job) == b"one\n"


def test_a_resource_that_does_not_answer_holds_up_no_other(project, job, scripted, home, viewer):
    (resource, driver), (other, other_driver) = scripted, make.make_resource("other", root=home / "other")
    [second] = make.submit(project, make.make_template(other), "second")
    make.start([second])
    other_driver.print("second", "fine\n")
    finish(driver, resource)
    finish(other_driver, other, "second")
    driver.is_away = True

    store_logs()

    assert (fresh(job).log_stored_at, read_all(viewer, second)) == (None, b"fine\n")
    driver.is_away = False
    with clock.frozen_at(clock.now() + isolation.FIRST_DELAY):
        store_logs()
    assert fresh(job).log_stored_at is not None


def test_a_log_that_cannot_be_read_holds_up_no_other_of_its_project(project, template, driver, resource, viewer):
    bad, good = make.submit(project, template, "bad", "good")
    make.start([bad, good])
    for job in (bad, good):
        driver.print(job.name, f"I am {job.name}\n")
        driver.finish(job.name)
    observe.observe_resource(resource_id=resource.pk)
    driver.jobs.logs["bad"] = None  # reading it fails in a way that nobody foresaw

    store_logs()

    assert (fresh(bad).log_stored_at, read_all(viewer, good)) == (None, b"I am good\n")


def test_many_logs_that_cannot_be_read_hold_up_no_other(project, template, driver, resource, viewer):
    names = [f"bad-{number}" for number in range(4)]
    *bad, good = make.submit(project, template, *names, "good")
    make.start([*bad, good])
    for job in (*bad, good):
        driver.print(job.name, f"I am {job.name}\n")
        driver.finish(job.name)
    observe.observe_resource(resource_id=resource.pk)
    for name in names:
        driver.jobs.logs[name] = None

    with clock.frozen_at(clock.now()) as move:
        for _ in range(3):
            store_logs(limit=2)
            move(clock.now() + timedelta(hours=1))

    assert read_all(viewer, good) == b"I am good\n"
    assert fresh(good).log_stored_at is not None


def test_a_log_that_became_shorter_than_what_is_stored_stays_as_it_is_stored(job, driver, resource, viewer):
    now, text = clock.now(), lines(1, 100)
    driver.print("train", text)
    with clock.frozen_at(now + LONG_AGO):
        store_logs()
    driver.jobs.logs["train"] = text[:500].encode()
    finish(driver, resource)

    store_logs()

    assert fresh(job).log_stored_at is not None
    assert read_all(viewer, job) == text.encode()


@pytest.fixture
def fifty_mb(job, driver, resource) -> bytes:
    """A stored log of 50 MB in which one line differs from all others."""
    text = lines(0, 900_000, "epoch {:07}: loss 0.123456, accuracy 0.987654, rate 1e-3\n").encode()
    middle = text.index(b"\n", len(text) // 2) + 1
    whole = text[:middle] + b"Traceback: CUDA ran out of memory\n" + text[middle:]
    driver.jobs.logs["train"] = whole
    finish(driver, resource)
    while fresh(job).log_stored_at is None:
        store_logs()
    driver.is_away = True
    return whole


def test_a_search_in_a_log_of_50_mb_reads_only_the_chunk_that_has_the_text(fifty_mb, job, viewer):
    spans = list(stored_logs.list_spans(fresh(job), b"cuda ran"))

    found = logs.find_in_log(actor=viewer, job=fresh(job), text="CUDA ran")

    assert found.offsets == [fifty_mb.index(b"CUDA ran")]
    assert sum((span.end or len(fifty_mb)) - span.start for span in spans) <= 2**20
    assert list(stored_logs.list_spans(fresh(job), b"no such text")) == [stored_logs.Span(len(fifty_mb), None)]


def test_the_end_of_a_log_of_50_mb_is_read_without_the_rest(fifty_mb, job, viewer, django_assert_max_num_queries):
    trees.forget()

    with django_assert_max_num_queries(10):
        part = logs.read_before(actor=viewer, job=fresh(job), before=None, limit=1000)

    assert part.text.text == fifty_mb[part.offset :].decode()
