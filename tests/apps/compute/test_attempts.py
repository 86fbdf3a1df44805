"""What the pod of a job may ask of the platform: what its job reads, and a place for its output, while it runs."""

import io
import tarfile
from pathlib import Path

import pytest
from django.test import Client

from accounts.permissions import Actor
from client.tests.deep_folders import deep_folder
from compute.adapters.job_tokens import sign_attempt
from compute.adapters.stored_outputs import StoredTreeOutputs
from compute.engine.job_spec import Mount, Tree
from compute.engine.states import JobState
from compute.models import Checkpoint, Job, Resource
from compute.workers import launches
from nearline.content import archives
from tests.factories.compute import make_resource, make_template, submit
from tests.factories.datasets import commit_files, make_dataset, make_store

URL = "/api/v1/attempt"


@pytest.fixture
def driver(db, tmp_path):
    make_store(tmp_path / "store")
    resource, driver = make_resource(root=tmp_path / "jobs")
    driver.template = make_template(resource)
    return driver


def make_tree(project, folder: Path, files: dict[str, bytes]) -> Tree:
    archive = pack(folder, files)
    tree, _ = trees_of(archive, project)
    return Tree(tree.dataset_id, tree.root)


def trees_of(archive: bytes, project):
    from datasets.services.tree_archives import store_archive

    return store_archive(actor=Actor.system("test"), project=project, holder="test", stream=io.BytesIO(archive))


def pack(folder: Path, files: dict[str, bytes]) -> bytes:
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return b"".join(archives.pack(folder))


@pytest.fixture
def running(driver, project, tmp_path):
    """A running job that reads a tree as its code, and the token of its attempt."""
    tree = make_tree(project, tmp_path / "code", {"train.py": b"print()", "lib/a.py": b""})
    (job,) = submit(project, driver.template, "train", code=Mount("code", tree))
    Job.objects.filter(pk=job.pk).update(state=JobState.RUNNING)
    job.refresh_from_db()
    return job, token_of(job)


def token_of(job) -> str:
    return sign_attempt(launches.launch_of(job, None))


def call(method, path, token, body=b""):
    headers = {"Authorization": f"Bearer {token}"}
    return Client().generic(method, URL + path, body, content_type="application/x-tar", headers=headers)


def read(answer) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(answer.getvalue())) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def test_a_pod_reads_the_code_of_its_job(running):
    _, token = running

    answer = call("GET", "/trees/code/code", token)

    assert read(answer) == {"lib/a.py": b"", "train.py": b"print()"}


def test_a_pod_reads_the_files_of_a_commit_that_its_job_reads(driver, project):
    actor = Actor.system("test")
    commit = commit_files(actor, make_dataset(actor, project), {"a/one.txt": b"1", "two.txt": b"2" * 70_000})
    tree = Tree(commit.dataset_id, commit.root)
    (job,) = submit(project, driver.template, "train", data=(Mount("digits", tree),))
    Job.objects.filter(pk=job.pk).update(state=JobState.RUNNING)
    job.refresh_from_db()

    answer = call("GET", "/trees/data/digits", token_of(job))

    assert read(answer) == {"a/one.txt": b"1", "two.txt": b"2" * 70_000}


def test_a_pod_reads_the_checkpoint_that_its_job_goes_on_from(driver, project, tmp_path):
    tree = make_tree(project, tmp_path / "saved", {"model": b"weights"})
    Resource.objects.update(kind="ssh", is_simulated=False)
    (job,) = submit(project, driver.template, "train", checkpoint="step:step_1")
    Checkpoint.objects.update(dataset_id=tree.dataset_id, root=tree.root)
    Job.objects.filter(pk=job.pk).update(state=JobState.RUNNING)
    job.refresh_from_db()
    (other,) = submit(project, driver.template, "other", checkpoint="step:step_2")
    Job.objects.filter(pk=other.pk).update(state=JobState.RUNNING)
    other.refresh_from_db()

    answer = call("GET", f"/trees/checkpoint/{tree.root}", token_of(job))
    refused = call("GET", f"/trees/checkpoint/{tree.root}", token_of(other))

    assert read(answer) == {"model": b"weights"}
    assert (refused.status_code, refused.json()["code"]) == (404, "compute.mount_not_found")


@pytest.mark.parametrize("path", ["/trees/code/other", "/trees/data/code", "/trees/input/a/0", "/trees/checkpoint/r1"])
def test_a_pod_reads_nothing_that_its_job_does_not(running, path):
    _, token = running

    answer = call("GET", path, token)

    assert (answer.status_code, answer.json()["code"]) == (404, "compute.mount_not_found")


def test_a_pod_stores_the_output_of_its_job(running, tmp_path):
    job, token = running
    archive = pack(tmp_path / "out", {"model.bin": b"weights", "deep/a b": b"", "ü": b"x"})

    answer = call("POST", "/output", token, archive)

    job.refresh_from_db()
    assert answer.json() == {"root": job.output_root, "files": 3, "size_bytes": 8}
    assert (job.output_state, job.output_files, job.output_bytes, job.output_error) == ("stored", 3, 8, "")
    output = StoredTreeOutputs().open(job.pk, job.output_root)
    assert {file.path: output.open(file.path).read() for file in output.list_files()} == {
        "deep/a b": b"",
        "model.bin": b"weights",
        "ü": b"x",
    }


def test_an_output_without_a_file_is_stored_as_none(running, tmp_path):
    job, token = running
    (tmp_path / "out").mkdir()

    answer = call("POST", "/output", token, pack(tmp_path / "out", {}))

    job.refresh_from_db()
    assert answer.json() == {"root": "", "files": 0, "size_bytes": 0}
    assert (job.output_state, job.output_root) == ("stored", "")


def test_an_output_that_breaks_off_is_refused_and_nothing_is_noted(running, tmp_path):
    job, token = running
    archive = pack(tmp_path / "out", {"model.bin": bytes(10_000)})

    answer = call("POST", "/output", token, archive[:5_000])

    job.refresh_from_db()
    assert (answer.status_code, answer.json()["code"]) == (400, "datasets.archive_unreadable")
    assert (job.output_state, job.output_root) == ("", "")


def archive_of(headers: dict[str, str]) -> bytes:
    """Return an archive of a small file whose header says this of it."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("a.txt")
        member.size, member.pax_headers = 3, headers
        archive.addfile(member, io.BytesIO(b"abc"))
    return written.getvalue()


@pytest.mark.parametrize(
    "headers",
    [
        {"mtime": "inf"},
        {"NEARLINE.mtime_ns": "soon"},
        {"GNU.sparse.map": f"0,3,{2**40},0", "GNU.sparse.size": str(2**40)},
        {"GNU.sparse.map": "x", "GNU.sparse.size": "1"},
        {"comment": "x" * (3 << 20)},
    ],
    ids=["time", "our time", "sparse", "map", "long"],
)
def test_an_archive_whose_headers_mean_harm_is_refused(running, headers):
    job, token = running

    answer = call("POST", "/output", token, archive_of(headers))

    job.refresh_from_db()
    assert (answer.status_code, answer.json()["code"]) == (400, "datasets.archive_unreadable")
    assert job.output_state != "stored"


def test_links_and_names_that_no_tree_carries_are_left_out_and_told(running):
    job, token = running
    archive = archives.header("a/../b", 0o644, 0, 0) + archives.header("link", 0o777, 0, 0, "/etc/passwd")

    answer = call("POST", "/output", token, archive + archives.end())

    job.refresh_from_db()
    assert answer.json()["files"] == 0
    assert job.output_error == (
        "2 names cannot be carried: 'a/../b' contains the component '..'. 'link' is no plain file."
    )


@pytest.mark.parametrize(("levels", "name"), [(1100, "d"), (30, "n" * 200)])
def test_what_lies_too_deep_in_an_output_is_left_out_and_told(running, tmp_path, levels, name):
    job, token = running
    with deep_folder(tmp_path / "out", levels, name):
        archive = pack(tmp_path / "out", {"model.bin": b"weights"})

    answer = call("POST", "/output", token, archive)

    job.refresh_from_db()
    assert answer.json()["files"] == job.output_files > 10
    assert f"names cannot be carried: '{(name + '/' + name)[:90]}" in job.output_error


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "lost", "pending"])
def test_the_token_is_worthless_once_the_job_does_not_run(running, state, tmp_path):
    job, token = running
    Job.objects.filter(pk=job.pk).update(state=state)

    answer = call("POST", "/output", token, pack(tmp_path / "out", {"model.bin": b"late"}))

    job.refresh_from_db()
    assert (answer.status_code, job.output_state) == (401, "")


def test_the_token_of_an_earlier_run_of_an_evicted_job_is_worthless(running):
    job, token = running
    Job.objects.filter(pk=job.pk).update(token="of the next run")

    assert call("GET", "/trees/code/code", token).status_code == 401


@pytest.mark.parametrize("token", ["", "nl_something", "a:b:c"])
def test_what_we_have_not_signed_opens_nothing(running, token):
    assert call("GET", "/trees/code/code", token).status_code == 401


def test_the_token_of_a_pod_opens_no_other_route(running):
    _, token = running

    assert Client().get("/api/v1/me", headers={"Authorization": f"Bearer {token}"}).status_code == 401


def test_an_output_that_is_not_stored_any_more_cannot_be_read(running):
    job, _ = running

    with pytest.raises(FileNotFoundError):
        StoredTreeOutputs().open(job.pk, "0" * 64)
