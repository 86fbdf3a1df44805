"""What this app adds to the shell and to the pages of other apps.

To the shell: entries of the rail, the numbers of the top bar, what the search finds, and the topics that pages can
subscribe to: `jobs` (any of them) and `job:<name>`. To pages of quotas: which templates have GPUs. To pages of people:
what the jobs run that they submitted by hand; those of a run's steps belong to the run. To pages of cache sites: which
resources read them.
"""

from collections.abc import Collection, Mapping, Sequence

from django.db.models import Count, Q
from django.urls import reverse

from accounts import running_work
from accounts.permissions import Actor
from accounts.running_work import WorkItem, WorkSource
from compute import signals
from compute.engine.states import JobState
from compute.selectors import job_rows, jobs, resources, templates
from compute.services import submissions
from datasets.selectors import site_readers
from datasets.selectors.site_readers import SiteReader
from scheduler.selectors import gpu_shapes, nodes
from scheduler.selectors.gpu_shapes import GpuShape
from web import live, navigation, search
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


def _allow_anybody(_actor: Actor, _key: str) -> None:
    """Everybody signed in may hear that some job changed; which one, the lists tell to its project's members."""


def _list_shapes() -> Sequence[GpuShape]:
    rows = templates.list_with_gpus()
    return [GpuShape(row.full_name, row.resource_id, row.gpu_milli, row.pool) for row in rows]


def _list_work(usernames: Collection[str]) -> list[WorkItem]:
    rows = jobs.list_live_of(usernames, kind=submissions.KIND)
    return [
        WorkItem(job.submitted_by, "job", job.name, job.project.name, reverse("compute:job", args=[job.name]))
        for job in rows
    ]


def _find_readers(sites: Collection[str]) -> Mapping[str, Sequence[SiteReader]]:
    """Return the resources that read each of these sites, and those that the sites are on though they are detached."""
    url, faults = reverse("compute:compute"), resources.list_faults()
    readers = {
        site: [SiteReader(name, url, faults.get(name, "")) for name in names]
        for site, names in resources.list_readers(sites).items()
    }
    for site, name in resources.list_detached_owners(sites).items():
        error = (
            f"{name} is detached: nothing is cached here or removed until it is attached again under this name, "
            f"or given up by `nearline compute give-up {name}`."
        )
        readers[site].append(SiteReader(name, url, error, is_attached=False))
    return readers


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
live.add_kind("jobs", check=_allow_anybody, stamps=lambda keys: dict.fromkeys(keys, job_rows.stamp_of_all_jobs()))
live.add_kind("job", check=lambda actor, name: jobs.get_job(actor=actor, name=name), stamps=job_rows.stamps_of_jobs)
signals.job_changed.connect(live.wake, dispatch_uid="compute.live")
gpu_shapes.add_source(_list_shapes)
running_work.add_source(WorkSource(_list_work, submissions.cancel_work))
site_readers.add_source(_find_readers)
