"""Where experiments come from: what the apps that create them tell about them. Experiments know only labels and ids."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from django.urls import reverse

from accounts.permissions import Actor
from compute.selectors import jobs
from experiments.models import Experiment

JOB = "job"
"""The kind of source of a job that a person submitted; its id is the job's name."""


@dataclass(frozen=True)
class Details:
    """What an experiment records. Empty: there is no such thing.

    `url` leads to it, `flow_url` to what it is one execution of; `repeat_command` does the same again. `decision` says
    which compute templates were tried, which one was chosen, and why.
    """

    url: str = ""
    flow_url: str = ""
    command: str = ""
    repeat_command: str = ""
    decision: Mapping[str, object] = field(default_factory=lambda: {"tried": [], "chosen": None, "why": ""})


class Source(Protocol):
    """One kind of source. Who asks may see the experiments that they ask about."""

    def describe(self, experiment: Experiment) -> Details:
        """Return what an experiment of this kind records."""

    def sites_of(self, source_ids: Collection[str]) -> Mapping[tuple[str, str], str]:
        """Return the cache site from which each commit was read, by source id and commit id."""

    def list_flows(self, *, actor: Actor, project: str | None) -> Sequence[str]:
        """Return names that experiments of this kind may have as `flow`, for completion."""


_SOURCES: dict[str, Source] = {}


def add_source(kind: str, source: Source) -> None:
    """Register who tells about experiments of a kind. Called when an app starts."""
    _SOURCES[kind] = source


def describe(experiment: Experiment) -> Details:
    """Return what an experiment records."""
    if (source := _SOURCES.get(experiment.source_kind)) is not None:
        return source.describe(experiment)
    if experiment.source_kind == JOB and experiment.job is not None:
        url = "" if experiment.job.deleted_at else reverse("compute:job", args=[experiment.job_name])
        command = jobs.get_spec(experiment.job).command
        return Details(url=url, command=command if isinstance(command, str) else shlex.join(command))
    return Details()


def sites_of(experiments: Sequence[Experiment]) -> Mapping[tuple[str, str], str]:
    """Return the cache site from which each commit was read, by the experiment's source id and the commit's id."""
    return {
        key: site
        for kind, source in _SOURCES.items()
        for key, site in source.sites_of(
            [row.source_id or "" for row in experiments if row.source_kind == kind]
        ).items()
    }


def list_flows(*, actor: Actor, project: str | None) -> Sequence[str]:
    """Return names that experiments may have as `flow`, for completion."""
    return sorted({name for source in _SOURCES.values() for name in source.list_flows(actor=actor, project=project)})
