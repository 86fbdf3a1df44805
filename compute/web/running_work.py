"""What jobs submitted by hand run for people. Those of a run's steps belong to the run."""

from collections.abc import Collection

from django.urls import reverse

from accounts import running_work
from accounts.running_work import WorkItem, WorkSource
from compute.selectors import jobs as job_selectors
from compute.services import submissions


def _list_work(usernames: Collection[str]) -> list[WorkItem]:
    rows = job_selectors.list_live_of(usernames, kind=submissions.KIND)
    return [
        WorkItem(job.submitted_by, "job", job.name, job.project.name, reverse("compute:job", args=[job.name]))
        for job in rows
    ]


running_work.add_source(WorkSource(_list_work, submissions.cancel_work))
