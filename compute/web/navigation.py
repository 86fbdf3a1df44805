"""What this app adds to the shell: entries of the rail, the numbers of the top bar, what the search finds."""

from collections.abc import Sequence

from django.urls import reverse

from accounts.actor import Actor
from compute.engine.states import JobState
from compute.selectors import jobs, resources
from web import navigation, search
from web.navigation import Activity, Entry, Group
from web.search import Hit


def _count_live(actor: Actor) -> int:
    return jobs.list_jobs(actor=actor).filter(state__in=[JobState.STARTING, JobState.RUNNING]).count()


def _count_resources(actor: Actor) -> int:
    return resources.list_resources(actor=actor).count()


def _count_activity(actor: Actor) -> Activity:
    waiting = jobs.list_jobs(actor=actor, state=JobState.PENDING).count()
    return Activity(running=_count_live(actor), waiting=waiting)


def _find_jobs(actor: Actor, text: str) -> Sequence[Hit]:
    found = jobs.list_jobs(actor=actor).filter(name__icontains=text)[: search.LIMIT]
    return [Hit(job.name, reverse("compute:job", args=[job.name]), f"{job.project.name}, {job.state}") for job in found]


navigation.add_entry(Entry("Overview", "/", "layout-dashboard", Group.WORK, 10))
navigation.add_entry(Entry("Jobs", "/jobs/", "list-details", Group.WORK, 50, ("/jobs/",), _count_live))
navigation.add_entry(
    Entry(
        "Compute", "/compute/", "server-2", Group.PLACES, 20, ("/compute/",), _count_resources, lists_by_project=False
    )
)
navigation.show_activity(_count_activity)
search.add_source("Jobs", "list-details", _find_jobs)
