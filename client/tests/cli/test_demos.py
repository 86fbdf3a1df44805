"""What the walks of `nearline demo` do around what they show."""

import time
from types import SimpleNamespace

from client.tests.cli.answers import page
from nearline.cli.commands.demo import wait

QUEUE = {"pool": "tr4858", "project": "tr4858-team-a", "gpu_held_milli": 2000, "waiting_workloads": 0}


def test_cleaning_up_ends_once_nothing_holds_a_gpu_of_the_pool(cli, server, monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    server.on("GET", "/projects", page({"name": "tr4858-team-a"}))
    server.on("GET", "/compute/jobs", page({"name": "tr4858-a-1", "state": "running"}))
    server.on("DELETE", "/compute/jobs/tr4858-a-1", None)
    server.on("GET", "/scheduler/pools", page({"name": "tr4858"}))
    waiting = QUEUE | {"gpu_held_milli": 0, "waiting_workloads": 1}
    server.on("GET", "/scheduler/queues", [page(QUEUE), page(waiting), page(QUEUE | {"gpu_held_milli": 0})])

    done = cli("demo", "tr4858", "--clean")

    assert done.stderr == "✔ 1 job deleted.\n"
    assert len(slept) == 2


def test_cleaning_up_where_nobody_has_walked_does_nothing(cli, server):
    server.on("GET", "/projects", page())
    server.on("GET", "/scheduler/pools", page())

    assert cli("demo", "tr4858", "--clean").stderr == "✔ 0 jobs deleted.\n"


def test_of_data_that_was_there_before_anything_was_told_nothing_is_compared():
    at = "2026-11-20T10:00:00+00:00"
    place = {"is_chosen": True, "data": {"ready_at": None}, "finishes_at": at}
    outlook = {"places": [place], "holders": [{"ends_at": at}], "likely_at": at}
    job = SimpleNamespace(
        raw={"events": [{"message": "Its data is ready.", "at": at}], "started_at": at, "finished_at": at}
    )

    assert [what for what, *_ in wait.compare(outlook, job, job)] == ["The GPUs are free", "It starts", "It is done"]
