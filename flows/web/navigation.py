"""What this app adds to the shell and to the pages of other apps.

To the shell: an entry of the rail, what the search finds, and the topics that pages can subscribe to: `runs` (any of
them) and `run:<id>`. To pages of jobs: the run of each. To pages of people: which of their runs go on.
"""

import re
from collections.abc import Collection, Sequence
from urllib.parse import urlencode

from django.urls import reverse

from accounts import running_work
from accounts.permissions import Actor
from accounts.running_work import WorkItem, WorkSource
from compute.selectors import job_rows
from compute.selectors.job_rows import JobLink
from flows import signals
from flows.selectors import flows, runs
from flows.services.runs import cancel_work
from web import live, navigation, search
from web.navigation import Entry, Group
from web.search import Hit


def _count_flows(actor: Actor) -> int:
    return flows.list_flows(actor=actor).count()


def _find_flows(actor: Actor, text: str) -> Sequence[Hit]:
    rows = search.find_rows(flows.list_flows(actor=actor), text, "name", "title")
    return [
        Hit(f"{flow.project.name}/{flow.name}", reverse("flows:flow", args=[flow.project.name, flow.name]), flow.title)
        for flow in rows
    ]


def _find_runs(actor: Actor, text: str) -> Sequence[Hit]:
    """Find runs by their id, the name of their flow, or that and their number: `digits #3` or `#3`."""
    rows = runs.list_runs(actor=actor)
    name, sign, number = text.rpartition("#")
    if sign and re.fullmatch(r"[0-9]{1,9}", number):
        rows, text = rows.filter(number=int(number)), name.rstrip()
    return [
        Hit(f"{run.flow.name} #{run.number}", reverse("flows:run", args=[run.pk]), f"{run.project.name}, {run.state}")
        for run in search.find_rows(rows, text, "flow__name")
    ]


def _find_run_of_job(actor: Actor, job_id: str) -> JobLink | None:
    step = runs.find_step_of_job(actor=actor, job_id=job_id)
    if step is None:
        return None
    url = f"{reverse('flows:run', args=[step.run_id])}?{urlencode({'step': step.key, 'index': step.index})}#run-step"
    return JobLink("Run", f"{step.run.flow.name} #{step.run.number}", url)


def _allow_anybody(_actor: Actor, _key: str) -> None:
    """Everybody signed in may hear that some run moved; which one, the lists tell to its project's members."""


def _list_work(usernames: Collection[str]) -> list[WorkItem]:
    return [
        WorkItem(run.created_by, "run", str(run), run.project.name, reverse("flows:run", args=[run.pk]))
        for run in runs.list_live_of(usernames)
    ]


navigation.add_entry(Entry("Flows", "/flows/", "sitemap", Group.WORK, 30, ("/flows/", "/runs/"), _count_flows))
search.add_source("Flows", "sitemap", _find_flows)
search.add_source("Runs", "player-play", _find_runs)
job_rows.add_link_source(_find_run_of_job)
live.add_kind("runs", check=_allow_anybody, stamps=lambda keys: dict.fromkeys(keys, runs.stamp_of_all_runs()))
live.add_kind("run", check=lambda actor, run_id: runs.get_run(actor=actor, run_id=run_id), stamps=runs.stamps_of_runs)
signals.run_changed.connect(live.wake, dispatch_uid="flows.live")
running_work.add_source(WorkSource(_list_work, cancel_work))
