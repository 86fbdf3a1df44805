"""What a refusal says to do next fits what was refused."""

import pytest

from scheduler.services import pool_members
from tests.factories.api import call
from tests.factories.datasets import commit_files, make_dataset, make_store

REF = "/datasets/team-a/xrays"
DEPARTMENT = {"name": "lab", "gpu_quota_milli": 0}


@pytest.fixture
def dataset(db, tmp_path, member, project):
    make_store(tmp_path / "store")
    dataset = make_dataset(member, project, "xrays")
    commit_files(member, dataset, {"a": b"1"})
    return dataset


@pytest.mark.parametrize(
    ("request_line", "body", "refusal"),
    [
        (f"POST {REF}/branches", {"name": "a b", "at": "main"}, ("datasets.invalid_label", "Choose another name.")),
        (
            f"POST {REF}/files/rename?path=nope&to=x",
            None,
            ("datasets.file_not_found", "List the files with `nearline data files`."),
        ),
        ("POST /scheduler/departments", DEPARTMENT, ("scheduler.department_exists", "Choose another name.")),
        (
            "POST /scheduler/departments",
            {"name": "a", "department": "nope"},
            (
                "scheduler.queue_not_found",
                "List what there is with `nearline queue list` and `nearline queue departments`.",
            ),
        ),
        (
            "POST /scheduler/departments",
            {"name": "a", "training_node_labels": ["x"]},
            ("scheduler.invalid_quota", ""),
        ),
        ("POST /users", {"username": "root"}, ("accounts.person_exists", "Choose another name.")),
        (f"DELETE {REF}/branches/main", None, ("datasets.default_branch_kept", "")),
    ],
)
def test_a_hint_fits_what_was_refused(site_admin, dataset, request_line, body, refusal):
    pool_members.ensure_default_pool()
    call(site_admin, "POST", "/scheduler/departments", DEPARTMENT)

    answer = call(site_admin, *request_line.split(), body)

    assert (answer.body["code"], answer.body["hint"]) == refusal
