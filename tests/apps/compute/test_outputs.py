"""Outputs of jobs in the store: what is stored, what is left out and told, and how they are read."""

import re
import shutil
from pathlib import Path

import pytest

from accounts.permissions import Actor, Role
from client.tests.deep_folders import deep_folder
from compute.errors import OutputEmpty, OutputGone, OutputNotStored, ResourceUnreachable
from compute.models import Job, Resource
from compute.selectors import outputs as output_reads
from compute.workers import outputs
from core import clock
from core.errors import NotFound
from datasets.errors import TreeNotFound
from datasets.models import StoredTree
from datasets.selectors import trees as tree_reads
from datasets.services import trees
from tests.factories.compute import make_resource, make_template, submit
from tests.factories.datasets import make_store

OPEN = Path("/proc/self/fd")


@pytest.fixture
def driver(db, tmp_path):
    make_store(tmp_path / "store")
    resource, driver = make_resource(root=tmp_path / "jobs")
    driver.template = make_template(resource)
    return driver


@pytest.fixture
def job(driver, project):
    (job,) = submit(project, driver.template, "train-1")
    (driver.root / job.name).mkdir(parents=True)
    return job


def store(job, patterns=("**",), **options):
    outputs.store_output(job, patterns=patterns, **options)
    job.refresh_from_db()
    return job


def paths_of(actor, job):
    return [file.path for file in output_reads.list_first_files(actor=actor, jobs=[job], limit=100).get(job.pk, ())]


def test_the_output_of_a_job_is_a_tree_of_its_project(driver, job, member):
    driver.leave(job.name, "model.bin", b"weights")
    driver.leave(job.name, "plots/roc.png", b"pixels")

    store(job)

    assert (job.output_state, job.output_files, job.output_bytes, job.output_error) == ("stored", 2, 13, "")
    assert paths_of(member, job) == ["model.bin", "plots/roc.png"]
    file, pieces = output_reads.open_file(actor=member, job=job, path="plots/roc.png")
    assert (file.size_bytes, b"".join(pieces)) == (6, b"pixels")


def test_the_output_reads_when_the_folder_of_its_job_is_gone(driver, job, member):
    driver.leave(job.name, "model.bin", b"weights")
    store(job)

    (driver.root / job.name / "model.bin").unlink()

    _, pieces = output_reads.open_file(actor=member, job=job, path="model.bin")
    assert b"".join(pieces) == b"weights"


def test_paths_of_files_and_folders_of_like_names_are_stored_in_the_order_of_trees(driver, job, member):
    for path in ("a/x", "a.txt", "a-b/y", "a0"):
        driver.leave(job.name, path, path.encode())

    store(job)

    assert paths_of(member, job) == ["a-b/y", "a.txt", "a/x", "a0"]


def test_a_job_that_left_nothing_has_no_tree(job, member):
    store(job)

    assert (job.output_state, job.output_root, job.output_files) == ("stored", "", 0)
    assert paths_of(member, job) == []
    assert output_reads.open_file(actor=member, job=job, path="x") is None


def test_only_files_that_fit_the_patterns_of_the_step_are_stored(driver, job, member):
    driver.leave(job.name, "model.bin", b"1")
    driver.leave(job.name, "tmp/cache", b"2")

    store(job, patterns=["*.bin"])

    assert paths_of(member, job) == ["model.bin"]
    assert job.output_error == ""


def test_files_that_nearlineignore_names_are_left_out_and_counted(driver, job, member):
    driver.leave(job.name, ".nearlineignore", b"tmp/\n*.log\n")
    driver.leave(job.name, "model.bin", b"1")
    driver.leave(job.name, "tmp/cache", b"2")
    driver.leave(job.name, "train.log", b"3")

    store(job)

    assert paths_of(member, job) == [".nearlineignore", "model.bin"]
    assert job.output_error == ".nearlineignore leaves out 2 files."


def test_rules_that_are_too_long_are_not_followed_and_told(driver, job, member):
    driver.leave(job.name, ".nearlineignore", b"*?*?*\n" * 20_000)
    driver.leave(job.name, "model.bin", b"1")

    store(job)

    assert paths_of(member, job) == [".nearlineignore", "model.bin"]
    assert job.output_error == ".nearlineignore has more than 64 KiB, so no file was left out by it."


def test_what_is_no_file_in_the_place_of_rules_keeps_no_output_from_being_stored(driver, job, member):
    driver.leave(job.name, "model.bin", b"1")
    output = driver.open_output(job.name)
    (output.host_folder / ".nearlineignore").symlink_to("/etc/hostname")
    (output.host_folder / ".cnvrgignore").mkdir()

    store(job)

    assert (paths_of(member, job), job.output_error) == (["model.bin"], "")
    descriptors = len(list(OPEN.iterdir()))
    for _ in range(50):
        with pytest.raises(FileNotFoundError):
            output.open(".cnvrgignore")
    assert len(list(OPEN.iterdir())) < descriptors + 50


def test_names_that_no_tree_can_carry_are_left_out_and_told(driver, job, member):
    driver.leave(job.name, "model.bin", b"1")
    driver.leave(job.name, ".nearline/state", b"2")

    store(job)

    assert paths_of(member, job) == ["model.bin"]
    assert job.output_error.startswith("1 names cannot be carried: '.nearline' lies in a '.nearline' folder")


def test_files_that_were_changed_after_the_job_ended_are_left_out_and_named(driver, job, member):
    driver.leave(job.name, "model.bin", b"1")
    driver.leave(job.name, "report.txt", b"forged")

    store(job, find_changed=lambda _: ["report.txt"])

    assert paths_of(member, job) == ["model.bin"]
    assert job.output_error == "Changed after the step had ended, so not kept: report.txt."


def test_of_more_files_than_the_limit_the_first_ones_are_stored_and_the_rest_is_told(driver, job, member, monkeypatch):
    monkeypatch.setattr(outputs, "MAX_FILES", 2)
    for name in ("a", "b", "c"):
        driver.leave(job.name, name, b"1")

    store(job)

    assert paths_of(member, job) == ["a", "b"]
    assert (job.output_state, job.output_files) == ("stored", 2)
    assert job.output_error == "More than 2 files; only the first ones were kept."


def test_as_many_files_as_the_limit_are_stored_and_nothing_is_told(driver, job, member, monkeypatch):
    monkeypatch.setattr(outputs, "MAX_FILES", 2)
    driver.leave(job.name, ".nearlineignore", b"*.log\n.nearlineignore\n")
    for name in ("a", "b", "c.log"):
        driver.leave(job.name, name, b"1")

    store(job)

    assert paths_of(member, job) == ["a", "b"]
    assert job.output_error == ".nearlineignore leaves out 2 files."


def test_storing_again_changes_nothing(driver, job):
    driver.leave(job.name, "model.bin", b"1")
    first = store(job).output_root

    assert store(job).output_root == first


def test_an_output_that_cannot_be_read_is_told(driver, job, member):
    (driver.root / job.name).rmdir()

    store(job)

    assert job.output_state == "failed"
    assert job.output_error.startswith("The outputs could not be kept: ")
    assert Job.objects.get(pk=job.pk).output_root == ""


def test_an_output_on_a_resource_that_does_not_answer_is_not_given_up(driver, job):
    driver.leave(job.name, "model.bin", b"weights")
    driver.is_away = True
    with pytest.raises(ResourceUnreachable):
        store(job)
    assert Job.objects.get(pk=job.pk).output_state == ""

    driver.is_away = False
    assert store(job).output_files == 1


def test_what_was_on_a_detached_resource_is_given_up(driver, job):
    Resource.objects.update(detached_at=clock.now())
    driver.is_away = True

    job = store(Job.objects.select_related("resource").get(pk=job.pk))

    told = "The outputs could not be kept: The scripted resource is away."
    assert (job.output_state, job.output_error) == ("failed", told)


def test_who_cannot_read_an_output_that_another_has_stored_meanwhile_does_not_take_it_back(driver, job):
    driver.leave(job.name, "model.bin", b"weights")
    read_before = Job.objects.get(pk=job.pk)
    store(job)
    shutil.rmtree(driver.root / job.name)

    stored = outputs.store_output(read_before, patterns=("**",))

    assert (stored.files, stored.error, Job.objects.get(pk=job.pk).output_state) == (1, "", "stored")


def test_strangers_read_no_output(driver, job, make_actor):
    driver.leave(job.name, "model.bin", b"1")
    store(job)
    stranger = Actor(user_id=None, name="stranger")

    with pytest.raises(NotFound):
        output_reads.open_file(actor=stranger, job=job, path="model.bin")
    assert paths_of(stranger, job) == []
    assert paths_of(make_actor(Role.VIEWER), job) == ["model.bin"]


def test_an_output_is_a_tree_that_its_readers_find(driver, job, make_actor):
    driver.leave(job.name, "model.bin", b"weights")
    store(job)

    output = output_reads.get_output(actor=make_actor(Role.VIEWER), job=job)

    assert (output.job, output.project, output.files, output.size_bytes) == ("train-1", "team-a", 1, 7)
    assert output.root == job.output_root


def test_an_output_without_a_tree_says_why(driver, job, member):
    with pytest.raises(OutputNotStored, match="The job is pending"):
        output_reads.get_output(actor=member, job=job)

    driver.leave(job.name, "model.bin", b"weights")
    outputs.give_up_output(job.pk, "The disk was full.")
    job.refresh_from_db()
    with pytest.raises(OutputNotStored, match="The disk was full"):
        output_reads.get_output(actor=member, job=job)


def test_an_output_without_a_file_says_so(job, member):
    store(job)

    with pytest.raises(OutputEmpty):
        output_reads.get_output(actor=member, job=job)


def test_an_output_that_was_collected_says_so(driver, job, member):
    driver.leave(job.name, "model.bin", b"weights")
    store(job)
    tree = output_reads.get_output(actor=member, job=job).tree
    trees.release_tree(actor=Actor.system("tests"), holder=output_reads.holder_of(job.pk))
    StoredTree.objects.update(due_at=clock.now())  # as the collection does before it deletes one

    with pytest.raises(OutputGone):
        output_reads.get_output(actor=member, job=job)
    with pytest.raises(TreeNotFound):
        tree_reads.get_tree_by_id(member, tree)


def test_strangers_find_no_tree(driver, job, member):
    driver.leave(job.name, "model.bin", b"weights")
    store(job)
    tree = output_reads.get_output(actor=member, job=job).tree

    with pytest.raises(TreeNotFound):
        tree_reads.get_tree_by_id(Actor(user_id=None, name="stranger"), tree)


@pytest.mark.parametrize(
    ("levels", "name", "why"),
    [(1100, "d", "has more than 256 components"), (30, "n" * 200, "(is longer than 4096 bytes|File name too long)")],
)
def test_of_folders_that_no_path_can_name_the_rest_is_stored(driver, job, levels, name, why):
    with deep_folder(driver.root / job.name / "deep", levels, name):
        store(job)

    assert job.output_files > 10
    assert job.output_state == "stored"
    assert re.search(why, job.output_error)


def test_of_a_path_that_is_too_long_its_beginning_and_end_are_told(driver, job):
    with deep_folder(driver.root / job.name / "deep", 300):
        store(job)

    assert len(job.output_error) < 600
    assert job.output_error.count("'deep/d/d/d/") == 2
