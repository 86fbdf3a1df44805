"""What this app adds to the shell: entries of the rail, hits of the search, links of jobs."""

import re
from collections.abc import Sequence
from urllib.parse import urlencode

from django.urls import reverse

from accounts.actor import Actor
from compute.selectors import job_rows
from compute.selectors.job_rows import JobLink
from flows.selectors import flows, runs
from web import navigation, search
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


navigation.add_entry(Entry("Flows", "/flows/", "sitemap", Group.WORK, 30, ("/flows/", "/runs/"), _count_flows))
search.add_source("Flows", "sitemap", _find_flows)
search.add_source("Runs", "player-play", _find_runs)
job_rows.add_link_source(_find_run_of_job)
