"""What this app adds to the shell: an entry of the rail, hits of the search, users of datasets, links of jobs.

And the topic that pages can subscribe to: `experiments` (any of them).
"""

from collections.abc import Sequence

from django.urls import reverse

from accounts.permissions import Actor
from compute.selectors import job_rows
from compute.selectors.job_rows import JobLink
from datasets.selectors import usage
from experiments.selectors import dataset_uses, experiments, stamps
from web import live, navigation, search
from web.navigation import Entry, Group
from web.search import Hit


def _count(actor: Actor) -> int:
    return experiments.list_experiments(actor=actor, is_recorded=True).count()


def _find(actor: Actor, text: str) -> Sequence[Hit]:
    rows = search.find_rows(experiments.list_experiments(actor=actor), text, "title", "note")
    return [Hit(row.title, reverse("experiments:experiment", args=[row.pk]), row.project.name) for row in rows]


def _find_of_job(actor: Actor, job_id: str) -> JobLink | None:
    row = experiments.list_experiments(actor=actor).filter(job=job_id).first()
    return JobLink("Experiment", row.title, reverse("experiments:experiment", args=[row.pk])) if row else None


def _allow_anybody(_actor: Actor, _key: str) -> None:
    """Everybody signed in may hear that some experiment changed; which one, the lists tell to its project's members."""


navigation.add_entry(Entry("Experiments", "/experiments/", "flask", Group.WORK, 40, ("/experiments/",), _count))
usage.add_source(dataset_uses.find_uses)
search.add_source("Experiments", "flask", _find)
job_rows.add_link_source(_find_of_job)
live.add_kind("experiments", check=_allow_anybody, stamps=lambda keys: dict.fromkeys(keys, stamps.stamp_of_all()))
