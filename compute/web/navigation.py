"""What this app adds to the shell: entries of the rail, the numbers of the top bar, what the search finds."""

from collections.abc import Sequence

from django.db.models import Count, Q
from django.urls import reverse

from accounts.actor import Actor
from compute.engine.states import JobState
from compute.selectors import jobs, resources
from scheduler.selectors import nodes
from web import navigation, search
from web.navigation import Activity, Entry, Group
from web.search import Hit

_LIVE = {JobState.STARTING, JobState.RUNNING}


def _count_live(actor: Actor) -> int:
    return jobs.in_states(jobs.list_jobs(actor=actor), _LIVE).count()


def _count_resources(actor: Actor) -> int:
    return resources.list_resources(actor=actor).count()


def _count_activity(actor: Actor) -> Activity:
    shown = jobs.in_states(jobs.list_jobs(actor=actor), {*_LIVE, JobState.PENDING})
    waiting = Q(state=JobState.PENDING, parts_running=0)
    return Activity(**shown.aggregate(running=Count("pk", filter=~waiting), waiting=Count("pk", filter=waiting)))


def _find_jobs(actor: Actor, text: str) -> Sequence[Hit]:
    rows = search.find_rows(jobs.list_jobs(actor=actor), text, "name", "title")
    return [Hit(job.label, reverse("compute:job", args=[job.name]), f"{job.project.name}, {job.state}") for job in rows]


def _find_nodes(actor: Actor, text: str) -> Sequence[Hit]:
    rows = search.find_rows(nodes.list_nodes(actor=actor), text, "name", "resource_name")
    return [Hit(node.name, f"{reverse('compute:compute')}#node-{node.pk}", node.resource_name) for node in rows]


navigation.add_entry(Entry("Overview", "/", "layout-dashboard", Group.WORK, 10))
navigation.add_entry(Entry("Jobs", "/jobs/", "list-details", Group.WORK, 50, ("/jobs/",), _count_live, words="submit"))
navigation.add_entry(
    Entry(
        "Compute", "/compute/", "server-2", Group.PLACES, 20, ("/compute/",), _count_resources, lists_by_project=False
    )
)
navigation.show_activity(_count_activity)
search.add_source("Jobs", "list-details", _find_jobs)
search.add_source("Nodes", "server-2", _find_nodes)
