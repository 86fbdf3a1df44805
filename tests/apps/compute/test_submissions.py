"""Jobs that people submit by hand, and the data that is kept for them as long as they live."""

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import count

import pytest
from django.apps import apps

from accounts.errors import PermissionDenied
from accounts.models import User
from compute.errors import CodeNotFound, InvalidJobSpec, JobBelongsToRun, JobNameTaken
from compute.models import Job, ResourceSite
from compute.selectors.jobs import find_free_name
from compute.services import jobs, submissions
from compute.services.submissions import Submission
from compute.workers import deleted_jobs, releases
from core import clock, tasks
from datasets.engine.queries import Conditions
from datasets.errors import CacheFull, CacheInUse
from datasets.models import CachedCommit, CacheHold, CacheSite, Commit, StoredTree, TreeHold
from datasets.services import cache_sites, caches, queries, trees
from datasets.services.trees import SourceFile
from experiments.models import Experiment
from experiments.workers import jobs as experiment_jobs
from tests.factories import compute as make
from tests.factories.api import call
from tests.factories.datasets import commit_files, make_dataset, make_store
from tests.interleaving import happens_after

pytestmark = pytest.mark.django_db

WANTED = Submission(template="scripted.small", command="python train.py", name="train")


@pytest.fixture
def cached(member, project, site_admin, resource, home) -> CachedCommit:
    """A commit that lies ready on the cache site of the resource."""
    before = tasks.install(tasks.NullQueue())
    make_store(home / "store")
    commit = commit_files(member, make_dataset(member, project, "digits"), {"a.txt": b"one"})
    site = cache_sites.create_site(actor=site_admin, name="near", root=home / "near", capacity_bytes=10**7)
    ResourceSite.objects.create(resource=resource, site="near", position=0)
    copy = caches.request_cache(actor=member, commit=commit, site=site)
    tasks.run("datasets.hydrate", {"cached_commit_id": copy.pk})
    tasks.install(before)
    copy.refresh_from_db()
    return copy


def test_a_submitted_job_belongs_to_the_person_and_waits(member, project, template):
    job = submissions.submit_job(actor=member, project=project, submission=WANTED)

    assert (job.name, job.submitted_by, job.state, job.kind) == ("train", "member", "pending", "job")
    assert job.spec["command"] == "python train.py"


def test_a_command_that_is_longer_than_a_program_can_be_given_is_refused(member, project, template):
    with pytest.raises(InvalidJobSpec, match="more than 131,071 bytes"):
        submissions.submit_job(actor=member, project=project, submission=replace(WANTED, command="é" * 65_536))

    assert not Job.objects.exists()


def test_it_has_a_time_limit_also_when_it_is_submitted_again(member, project, template):
    job = submissions.submit_job(actor=member, project=project, submission=replace(WANTED, timeout_s=90))

    again = submissions.rerun_job(actor=member, job=job, name="again")

    assert [job.spec["timeout_s"], again.spec["timeout_s"]] == [90, 90]


def test_a_time_limit_is_asked_for_over_the_api_and_is_more_than_nothing(member, project, template):
    body = {"project": "team-a", "template": "scripted.small", "command": "true"}

    answer = call(member, "POST", "/compute/jobs", {**body, "timeout_s": 90})
    refused = call(member, "POST", "/compute/jobs", {**body, "timeout_s": 0})

    assert (answer.status, answer.body["timeout_s"]) == (201, 90)
    assert (refused.status, refused.body["code"], Job.objects.count()) == (400, "compute.invalid_job_spec", 1)


def test_it_has_an_idle_limit_also_when_it_is_submitted_again(member, project, template):
    body = {"project": "team-a", "template": "scripted.small", "command": "true"}

    answer = call(member, "POST", "/compute/jobs", {**body, "name": "first", "idle_limit_s": 7200})
    again = call(member, "POST", "/compute/jobs/first/rerun", {"name": "again"})
    refused = call(member, "POST", "/compute/jobs", {**body, "idle_limit_s": 59})

    assert (answer.status, answer.body["idle_limit_s"], answer.body["idle"]) == (201, 7200, None)
    assert again.body["idle_limit_s"] == 7200
    assert (refused.status, refused.body["code"], Job.objects.count()) == (400, "compute.invalid_job_spec", 2)


def test_without_a_name_it_gets_one(member, project, template):
    first = submissions.submit_job(actor=member, project=project, submission=replace(WANTED, name=""))
    second = submissions.submit_job(actor=member, project=project, submission=replace(WANTED, name=""))

    assert first.name.startswith("job-")
    assert first.name != second.name


def test_an_image_is_a_name_on_one_line(member, project, template):
    with pytest.raises(InvalidJobSpec, match="cannot name an image"):
        submissions.submit_job(actor=member, project=project, submission=replace(WANTED, image="a\nb"))

    assert not Job.objects.exists()


def test_what_it_reads_is_mounted_and_stays_until_it_has_ended(member, project, template, cached):
    wanted = replace(WANTED, data=["team-a/digits"])
    job = submissions.submit_job(actor=member, project=project, submission=wanted)

    job.refresh_from_db()
    source = {"kind": "host_folder", "path": str(cached.path)}
    assert job.spec["data"] == [{"name": "digits", "source": source, "read_only": True}]
    releases.release_data()
    with pytest.raises(CacheInUse, match="read by train"):
        caches.uncache(actor=member, cached_commit_id=cached.pk)
    jobs.cancel_job(actor=member, job=job)
    releases.release_data()
    assert caches.uncache(actor=member, cached_commit_id=cached.pk).state == "evicting"


def test_a_job_that_names_a_query_reads_what_it_selects(member, project, template, cached):
    queries.create_query(actor=member, dataset=cached.dataset, name="all", conditions=Conditions(globs=("**",)))

    job = submissions.submit_job(actor=member, project=project, submission=replace(WANTED, data=["team-a/digits@:all"]))

    job.refresh_from_db()
    (commit_id,) = job.spec["commits"]
    selection = Commit.objects.get(pk=commit_id)
    assert (selection.source, selection.parent_id) == ("query", cached.commit_id)
    assert selection.root == job.spec["data"][0]["source"]["root"]


def test_a_job_is_submitted_once_more_with_the_same_commit_of_its_data(member, project, template, cached):
    first = submissions.submit_job(actor=member, project=project, submission=replace(WANTED, data=["team-a/digits"]))
    commit_files(member, cached.commit.dataset, {"a.txt": b"two"})

    second = submissions.rerun_job(actor=member, job=first)

    assert second.spec["commits"] == first.spec["commits"]
    assert second.template == template


def test_data_that_is_not_there_is_brought_and_mounted_from_where_it_was_brought_to(member, project, template, cached):
    before = tasks.install(tasks.NullQueue())
    caches.uncache(actor=member, cached_commit_id=cached.pk)
    tasks.run("datasets.evict", {"cached_commit_id": cached.pk})
    job = submissions.submit_job(actor=member, project=project, submission=replace(WANTED, data=["team-a/digits"]))
    assert (job.state, job.gate, job.workload_id) == ("pending", "data", None)
    copy = CachedCommit.objects.get(state="queued")

    tasks.run("compute.queue_ready_jobs", {})
    job.refresh_from_db()
    assert job.workload_id is None
    tasks.run("datasets.hydrate", {"cached_commit_id": copy.pk})
    tasks.run("compute.queue_ready_jobs", {})
    tasks.install(before)

    job.refresh_from_db()
    copy.refresh_from_db()
    assert (job.gate, job.workload.enqueued_at) == ("", job.created_at)
    source = {"kind": "host_folder", "path": str(copy.path)}
    assert job.spec["data"] == [{"name": "digits", "source": source, "read_only": True}]


@pytest.mark.parametrize(
    ("change", "error"),
    [({"name": "no way"}, InvalidJobSpec), ({"command": " "}, InvalidJobSpec), ({"name": "x" * 64}, InvalidJobSpec)],
)
def test_nonsense_is_refused_and_nothing_is_created(member, project, template, change, error):
    with pytest.raises(error):
        submissions.submit_job(actor=member, project=project, submission=replace(WANTED, **change))
    assert not Job.objects.exists()


def test_a_name_is_used_once(member, project, template):
    submissions.submit_job(actor=member, project=project, submission=WANTED)

    with pytest.raises(JobNameTaken):
        submissions.submit_job(actor=member, project=project, submission=WANTED)
    assert Job.objects.count() == 1


def test_a_viewer_cannot_submit(viewer, project, template):
    with pytest.raises(PermissionDenied):
        submissions.submit_job(actor=viewer, project=project, submission=WANTED)
    assert not Job.objects.exists()


START = datetime(2026, 11, 21, 14, 5, tzinfo=UTC)


@pytest.fixture
def at(null_queue):
    """Move the clock to so many seconds after the start, and let everything that ticks tick once."""
    with clock.frozen_at(START) as move:

        def at(seconds: float) -> None:
            move(START + timedelta(seconds=seconds))
            for row in CachedCommit.objects.filter(state__in=("queued", "hydrating")).order_by("pk"):
                tasks.run("datasets.hydrate", {"cached_commit_id": row.pk})
            tasks.run("compute.queue_ready_jobs", {})
            tasks.run("compute.update_missing_bytes", {})

        yield at


@pytest.fixture
def far(member, project, site_admin, template, home):
    """A commit of 1,000 bytes that is on no site, and a resource that reads a simulated one of 10 bytes a second."""
    make_store(home / "store")
    config = {"size_bytes": 10**6, "rate_bytes_s": 10}
    cache_sites.create_site(actor=site_admin, name="lab-cache", kind="simulated", config=config)
    ResourceSite.objects.create(resource=template.resource, site="lab-cache", position=0)
    return commit_files(member, make_dataset(member, project, "digits"), {"a.txt": b"x" * 1000})


READS = replace(WANTED, data=["team-a/digits"])


def test_on_a_simulated_site_a_job_waits_for_its_data_and_is_queued_when_it_is_ready(member, project, far, at):
    job = submissions.submit_job(actor=member, project=project, submission=READS)
    assert (job.state, job.workload_id, job.reason) == ("pending", None, "Its data is being brought to scripted.")

    at(0)
    at(90)
    job.refresh_from_db()
    assert job.workload_id is None
    shown = call(member, "GET", "/compute/jobs/train").body
    assert shown["data_wait"] == {
        "site": "lab-cache",
        "missing_bytes": 100,
        "total_bytes": 1000,
        "rate_bytes_s": 10.0,
        "ready_at": "2026-11-21T14:06:40.000Z",
        "text": "100 B of 1.0 kB still move to lab-cache at 10 B/s, ready in about 10 s (14:06 UTC).",
        "is_assumed": False,
    }

    at(100)
    job.refresh_from_db()
    assert (job.state, job.reason) == ("pending", "")
    assert job.workload.missing_bytes == {job.resource_id: 0}
    assert list(job.events.order_by("seq").values_list("seq", "message")) == [
        (1, "Its data is being brought to scripted."),
        (2, "Its data is ready. It waits for scripted.small."),
    ]
    assert call(member, "GET", "/compute/jobs/train").body["data_wait"] is None
    tree = {"kind": "tree", "dataset_id": far.dataset_id, "root": far.root}
    assert job.spec["data"] == [{"name": "digits", "source": tree, "read_only": True}]


def test_the_pages_say_how_much_of_the_data_that_a_job_waits_for_still_moves(member, project, far, at, client):
    submissions.submit_job(actor=member, project=project, submission=READS)
    at(0)
    at(40)

    client.force_login(User.objects.get(pk=member.user_id))
    texts = [" ".join(client.get(page).content.decode().split()) for page in ("/jobs/train/", "/", "/jobs/")]

    sentence = "600 B of 1.0 kB still move to lab-cache at 10 B/s, ready in about 1 min (14:06 UTC)."
    assert [sentence in text for text in texts] == [True, True, False]
    assert ["Its data is being brought to scripted." in text for text in texts] == [True, True, True]


def test_a_job_whose_data_cannot_be_brought_fails_with_the_reason(member, project, far, at):
    job = submissions.submit_job(actor=member, project=project, submission=READS)
    CachedCommit.objects.update(state="failed", error="The store does not answer.")

    tasks.run("compute.queue_ready_jobs", {})

    job.refresh_from_db()
    assert (job.state, job.reason_code, job.reason) == (
        "failed",
        "infrastructure",
        "A dataset could not be brought to scripted.small: The store does not answer.",
    )


def test_a_job_that_is_cancelled_while_its_data_moves_is_never_queued_and_lets_go_of_it(member, project, far, at):
    job = submissions.submit_job(actor=member, project=project, submission=READS)
    at(0)

    jobs.cancel_job(actor=member, job=job)
    at(100)
    releases.release_data()

    job.refresh_from_db()
    assert (job.state, job.workload_id) == ("cancelled", None)
    assert caches.uncache(actor=member, cached_commit_id=CachedCommit.objects.get().pk).state == "evicting"


def test_what_a_refused_submission_requested_is_brought_no_further(member, project, far, at):
    large = commit_files(member, make_dataset(member, project, "large"), {"a.txt": b"x" * 10**6})

    wanted = replace(READS, data=["team-a/digits", "team-a/large"])
    with pytest.raises(CacheFull, match=f"no space for team-a/large@{large.short}"):
        submissions.submit_job(actor=member, project=project, submission=wanted)

    assert [copy.state for copy in CachedCommit.objects.all()] == ["evicting"]
    assert not CacheHold.objects.exists()
    assert not Job.objects.exists()


def test_two_datasets_of_one_name_are_refused_before_any_is_requested(member, project, far, at):
    with pytest.raises(InvalidJobSpec, match="same name"):
        submissions.submit_job(actor=member, project=project, submission=replace(READS, data=["team-a/digits"] * 2))

    assert not CachedCommit.objects.exists()


def test_what_jobs_of_an_earlier_release_hold_by_their_names_is_held_by_their_ids(member, project, far, at):
    job = submissions.submit_job(actor=member, project=project, submission=READS)
    CacheHold.objects.update(holder="job:train")

    import_module("compute.migrations.0021_holds_by_job_id").rename_holders(apps, None)

    assert CacheHold.objects.get().holder == f"job:{job.pk}"


def test_data_that_an_interrupted_submission_requested_is_released_after_a_while(member, project, far, at):
    site = CacheSite.objects.get()
    caches.request_cache(actor=member, commit=far, site=site, holder="job:job_never", why="read by nobody")
    releases.release_data()
    assert CacheHold.objects.count() == 1

    at(301)
    releases.release_data()

    assert not CacheHold.objects.exists()


def test_the_form_offers_commits_that_are_on_no_site_and_says_why_a_full_site_refuses_one(
    member, project, far, at, client
):
    client.force_login(User.objects.get(pk=member.user_id))
    label = f"team-a/digits@{far.short}"
    form = {"project": "team-a", "template": "scripted.small", "command": "true", "name": "train", "reads": [label]}

    assert f"{label}, not cached yet: the job waits for it" in client.get("/jobs/new/").content.decode()
    CacheSite.objects.update(capacity_bytes=1)
    assert "lab-cache has no space" in client.post("/jobs/new/", form).content.decode()
    CacheSite.objects.update(capacity_bytes=10**6)
    assert client.post("/jobs/new/", form).headers["location"] == "/jobs/train/"
    assert CacheHold.objects.get().cached_commit.commit_id == far.pk


def test_a_full_simulated_site_refuses_the_job_and_says_so(member, project, far, at):
    CacheSite.objects.update(capacity_bytes=1)

    with pytest.raises(CacheFull, match="lab-cache has no space"):
        submissions.submit_job(actor=member, project=project, submission=READS)

    assert not Job.objects.exists()


@pytest.fixture
def code(member, project, home):
    """The root of a folder of code in the project's store."""
    make_store(home / "store")
    files = [SourceFile(b"train.py", 0o644, 1, 0, lambda: io.BytesIO(b"1"))]
    return trees.store_tree(actor=member, project=project, holder="code", files=files)


def test_a_job_brings_code_and_holds_it_for_the_time_when_it_is_submitted_once_more(member, project, template, code):
    first = submissions.submit_job(actor=member, project=project, submission=replace(WANTED, code=code.root))
    trees.release_tree(actor=member, holder="code")

    second = submissions.rerun_job(actor=member, job=first)

    mount = {"kind": "tree", "dataset_id": code.dataset_id, "root": code.root}
    assert [job.spec["code"]["source"] for job in (first, second)] == [mount, mount]
    holders = TreeHold.objects.filter(tree=code).values_list("holder", flat=True)
    assert set(holders) == {f"job-code:{first.pk}", f"job-code:{second.pk}"}
    assert call(member, "GET", "/compute/jobs/train").body["code"] == code.root


def test_code_that_the_project_does_not_have_is_refused(member, project, template, code):
    TreeHold.objects.all().delete()
    StoredTree.objects.all().delete()

    with pytest.raises(CodeNotFound, match=f"team-a has no code with the hash {code.root[:12]}"):
        submissions.submit_job(actor=member, project=project, submission=replace(WANTED, code=code.root))

    assert not Job.objects.exists()


def test_a_name_that_was_used_a_hundred_times_is_found_free_in_three_queries(
    member, project, template, django_assert_num_queries
):
    job = submissions.submit_job(actor=member, project=project, submission=WANTED)
    for number in range(2, 101):
        job.pk, job.name, job.workload = f"job_{number}", f"train.{number}", None
        job.save(force_insert=True)

    with django_assert_num_queries(3):
        assert find_free_name(f"train.{number}" for number in count(2)) == "train.101"


def test_the_name_of_a_deleted_job_is_free_and_leads_to_the_new_one(member, project, template):
    first = submissions.submit_job(actor=member, project=project, submission=WANTED)
    submissions.delete_job(actor=member, job=first)

    second = submissions.submit_job(actor=member, project=project, submission=replace(WANTED, command="echo again"))
    submissions.delete_job(actor=member, job=second)
    third = submissions.submit_job(actor=member, project=project, submission=WANTED)

    first.refresh_from_db()
    assert (first.state, first.reason) == ("cancelled", "member deleted the job.")
    assert [(job.name, job.label) for job in (second, third)] == [("train.2", "train"), ("train.3", "train")]
    shown = call(member, "GET", "/compute/jobs/train").body
    assert (shown["name"], shown["label"], shown["id"]) == ("train.3", "train", third.pk)
    assert [item["name"] for item in call(member, "GET", "/compute/jobs").body["items"]] == ["train.3"]
    with pytest.raises(JobNameTaken):
        submissions.submit_job(actor=member, project=project, submission=WANTED)


def test_a_name_that_is_free_again_is_used_once_by_two_who_submit_at_once(member, project, template):
    def submit():
        return submissions.submit_job(actor=member, project=project, submission=WANTED)

    submissions.delete_job(actor=member, job=submit())

    with happens_after('FROM "compute_job"', submit, nth=2), pytest.raises(JobNameTaken):
        submit()

    assert Job.objects.filter(title="train", deleted_at=None).count() == 1


def test_a_deleted_job_keeps_no_code_and_its_experiment_stays(member, project, template, code):
    job = submissions.submit_job(actor=member, project=project, submission=replace(WANTED, code=code.root))

    assert call(member, "DELETE", "/compute/jobs/train").status == 204
    experiment_jobs.follow_jobs()
    deleted_jobs.purge_deleted()

    assert list(TreeHold.objects.values_list("holder", flat=True)) == ["code"]
    assert call(member, "GET", "/compute/jobs/train").status == 404
    assert Experiment.objects.get(job=job).source_id == "train"


def test_a_step_of_a_run_is_not_deleted_by_itself(member, project, template):
    (job,) = make.submit(project, template, "step")
    Job.objects.update(kind="experiment")

    with pytest.raises(JobBelongsToRun):
        submissions.delete_job(actor=member, job=Job.objects.get(pk=job.pk))

    assert Job.objects.get().state == "pending"
