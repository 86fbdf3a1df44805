"""What runs of flows go on for people."""

from collections.abc import Collection

from django.urls import reverse

from accounts import running_work
from accounts.running_work import WorkItem, WorkSource
from flows.selectors import runs as run_selectors
from flows.services import runs


def _list_work(usernames: Collection[str]) -> list[WorkItem]:
    return [
        WorkItem(run.created_by, "run", f"{run.flow.name} #{run.number}", run.project.name, _url(run.pk))
        for run in run_selectors.list_live_of(usernames)
    ]


def _url(run_id: str) -> str:
    return reverse("flows:run", args=[run_id])


running_work.add_source(WorkSource(_list_work, runs.cancel_work))
