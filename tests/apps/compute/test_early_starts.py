"""Jobs that start once the first files of their data are there, and what they may ask for then."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from django.core import signing

from accounts.permissions import Actor
from compute.engine.job_spec import SourceKind, source_from_json
from compute.errors import InvalidJobSpec
from compute.models import Job, ResourceSite
from compute.selectors.jobs import get_spec
from compute.services import jobs, submissions
from compute.services.submissions import Submission
from compute.workers import data_waits, launches
from core import tasks
from datasets.adapters.hydration import StorePacks
from datasets.engine.cache_states import CacheState
from datasets.models import CachedCommit, CacheSite
from datasets.selectors import caches as caches_reads
from datasets.services import cache_sites, caches
from tests.factories.api import call
from tests.factories.datasets import commit_files, make_dataset, make_store

pytestmark = pytest.mark.django_db(transaction=True)

FILES = {"a.bin": b"a" * (1 << 20), "b.bin": b"b" * (1 << 20)}
WANTED = Submission(template="scripted.small", command="python train.py", data=["team-a/digits"], start_early=True)


@pytest.fixture
def queue():
    before = tasks.install(tasks.NullQueue())
    yield
    tasks.install(before)


@pytest.fixture
def commit(queue, member, project, resource, home):
    """A commit of two packs' worth of files on no site; the resource reads a site in a folder."""
    make_store(home / "store")
    cache_sites.create_site(actor=Actor.system("test"), name="near", root=home / "near", capacity_bytes=10**8)
    ResourceSite.objects.create(resource=resource, site="near", position=0)
    return commit_files(member, make_dataset(member, project, "digits"), FILES)


def submit(member, project, **changes) -> Job:
    return submissions.submit_job(actor=member, project=project, submission=replace(WANTED, **changes))


def note_progress(**changes) -> None:
    CachedCommit.objects.update(**changes)
    data_waits.queue_ready_jobs()


def gates() -> list[str]:
    return list(Job.objects.order_by("pk").values_list("gate", flat=True))


def test_it_is_queued_with_the_first_bytes_and_another_job_with_the_last(member, project, template, commit):
    early, late = submit(member, project), submit(member, project, start_early=False)
    seen = []

    for changes in (
        {"state": CacheState.PROVISIONING},
        {"state": CacheState.HYDRATING, "bytes_done": 0},
        {"bytes_done": 1},
        {"state": CacheState.READY},
    ):
        note_progress(**changes)
        seen.append(gates())

    copy = CachedCommit.objects.get()
    assert seen == [["data", "data"], ["data", "data"], ["", "data"], ["", ""]]
    mounts = [get_spec(Job.objects.get(pk=job.pk)).data[0].source.path for job in (early, late)]
    assert mounts == [f"{copy.site.root}/.early/{copy.pk}", f"{copy.site.root}/{copy.location}"]


def test_a_copy_that_fails_before_anything_is_there_fails_the_job(member, project, template, commit):
    job = submit(member, project)

    note_progress(state=CacheState.FAILED, error="The store is gone.")

    job.refresh_from_db()
    assert (job.state, job.reason) == (
        "failed",
        "A dataset could not be brought to scripted.small: The store is gone.",
    )


def test_it_is_submitted_again_as_one_that_starts_early(member, project, template, commit):
    again = submissions.rerun_job(actor=member, job=submit(member, project), name="again")

    assert get_spec(again).early == {"digits": CachedCommit.objects.get().pk}


def test_where_no_site_is_filled_it_is_refused_in_words(member, project, template, commit, driver):
    CacheSite.objects.update(kind="existing")

    with pytest.raises(InvalidJobSpec, match="cannot start before their data is complete"):
        submit(member, project)

    assert not Job.objects.exists()


OF_A_RESOURCE = {"resource": "res_1"}
KINDS = [
    ("volume", OF_A_RESOURCE),
    ("volume", {**OF_A_RESOURCE, "sharing": "pool"}),
    ("nfs", {**OF_A_RESOURCE, "server": "nas", "path": "/exports"}),
    ("ssh", OF_A_RESOURCE),
]


@pytest.mark.parametrize(("kind", "config"), KINDS)
@pytest.mark.usefixtures("template", "commit")
def test_a_copy_that_others_fill_is_mounted_in_its_place_before_it_is_complete(member, project, driver, kind, config):
    job = submit(member, project)
    CacheSite.objects.update(kind=kind, root="/data/near", config=config)
    driver.mountable = frozenset(SourceKind)
    copy = CachedCommit.objects.get()

    note_progress(state=CacheState.HYDRATING, bytes_done=1)

    assert (caches_reads.find_begun([copy.pk]).count(), gates()) == (1, [""])
    mounted = get_spec(Job.objects.get(pk=job.pk)).data[0].source
    CachedCommit.objects.update(state=CacheState.READY)
    assert mounted == source_from_json(CachedCommit.objects.select_related("site", "commit").get().source)


def test_what_is_there_shows_whole_under_one_name_before_and_after_the_copy_is_complete(
    member, project, template, commit, monkeypatch
):
    submit(member, project)
    copy = CachedCommit.objects.get()
    early, read, seen = Path(copy.site.root) / ".early" / copy.pk, StorePacks.read, []

    def look_and_read(packs, pack, offset, size):
        seen.append({path.name: path.read_bytes() for path in early.glob("*.bin")})
        return read(packs, pack, offset, size)

    monkeypatch.setattr(StorePacks, "read", look_and_read)
    tasks.run("datasets.hydrate", {"cached_commit_id": copy.pk})

    copy.refresh_from_db()
    assert copy.state == "ready"
    assert all(FILES[name] == content for files in seen for name, content in files.items())
    assert {path.name: path.read_bytes() for path in early.iterdir()} == FILES
    assert early.resolve() == Path(copy.path).resolve()

    jobs.cancel_many(actor=Actor.system("test"), job_ids=Job.objects.values_list("pk", flat=True), reason="done")
    tasks.run("compute.release_data", {})
    caches.uncache(actor=member, cached_commit_id=copy.pk)
    tasks.run("datasets.evict", {"cached_commit_id": copy.pk})
    assert not early.is_symlink()


def token_of(job: Job) -> str:
    """Return the token that a job gets with its start."""
    early = json.loads(launches.launch_of(job, None).secrets["NEARLINE_EARLY_DATA"])
    return early["tokens"]["digits"]


def ask(token, method, path="", body=None):
    return call(None, method, f"/copy/early{path}", body, Authorization=f"Bearer {token}")


def test_its_token_reads_the_commit_and_says_what_is_wanted_next(member, project, template, commit):
    token = token_of(submit(member, project))
    copy = CachedCommit.objects.get()
    pack = "a" * 64

    told = ask(token, "GET")
    signed = ask(token, "POST", "/downloads", {"objects": [{"kind": "root", "id": commit.root}]})
    assert ask(token, "POST", "/wanted", {"packs": [pack]}).status == 204

    copy.refresh_from_db()
    assert (
        told.body["commit"]["root"],
        told.body["commit"]["files"],
        told.body["is_complete"],
        told.body["error"],
    ) == (
        commit.root,
        2,
        False,
        "",
    )
    assert signed.body["items"][0]["request"]["url"].startswith("/store/")
    assert copy.next_packs == [pack]


def test_of_a_copy_that_has_failed_a_job_is_told_why_and_reads_on_from_the_store(member, project, template, commit):
    token = token_of(submit(member, project))
    CachedCommit.objects.update(state=CacheState.FAILED, error="The site is full.")

    told = ask(token, "GET")
    signed = ask(token, "POST", "/downloads", {"objects": [{"kind": "root", "id": commit.root}]})

    assert (told.body["is_complete"], told.body["error"], signed.status) == (False, "The site is full.", 200)


def test_a_token_is_good_for_nothing_once_its_job_holds_the_copy_no_more(member, project, template, commit):
    job, other = submit(member, project), submit(member, project)
    token, others = token_of(job), token_of(other)
    caches.release_holds(actor=Actor.system("test"), holder=submissions.HOLDER + job.pk)

    assert [ask(token, "GET").status, ask("nonsense", "GET").status] == [401, 401]
    assert ask(token, "POST", "/wanted", {"packs": []}).status == 401
    assert ask(others, "GET").status == 200


def test_a_token_of_an_earlier_version_is_good_as_long_as_any_job_holds_the_copy(member, project, template, commit):
    job = submit(member, project)
    copy_id = CachedCommit.objects.get().pk
    tokens = [signing.dumps(copy_id, salt="datasets.early_reading"), caches_reads.sign_reader(copy_id, holder="")]
    before = [ask(token, "GET").status for token in tokens]
    caches.release_holds(actor=Actor.system("test"), holder=submissions.HOLDER + job.pk)

    assert (before, [ask(token, "GET").status for token in tokens]) == ([200, 200], [401, 401])
