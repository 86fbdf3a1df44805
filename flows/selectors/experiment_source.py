"""What flows tell about the experiments of their attempts: links, the command, and how to run the same again."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.urls import reverse

from accounts.permissions import Actor
from experiments.selectors import sources
from experiments.selectors.sources import Details
from flows.engine.names import EXPERIMENT_KIND
from flows.models import Attempt, AttemptInput, Run
from flows.selectors import flows
from flows.selectors.specs import spec_of

if TYPE_CHECKING:
    from experiments.models import Experiment

_MOST_FLOWS = 200


class AttemptSource:
    """The source of experiments that record attempts; its ids are theirs."""

    def describe(self, experiment: "Experiment") -> Details:
        """Return what an experiment records; nothing for an attempt that is gone."""
        attempts = Attempt.objects.select_related("step", "run__flow", "run__project")
        attempt = attempts.filter(pk=experiment.source_id).first()
        if attempt is None:
            return Details()
        run, step = attempt.run, attempt.step
        version = str(run.code.get("version") or "")
        place = {"step": step.key, **({"index": step.index} if step.index else {})}
        flow_url = reverse("flows:flow", args=[run.project.name, run.flow.name])
        return Details(
            url=f"{reverse('flows:run', args=[run.pk])}?{urlencode(place)}",
            flow_url=f"{flow_url}?version={version[:12]}" if version else flow_url,
            command=_as_text(spec_of(run.version_id).step(step.key).command),
            repeat_command=_repeat_command(run),
            decision=step.decision,
        )

    def sites_of(self, source_ids: Collection[str]) -> Mapping[tuple[str, str], str]:
        """Return the cache site from which attempts read each commit, by attempt and commit."""
        rows = AttemptInput.objects.filter(attempt__in=source_ids, is_cached=True)
        return {(row.attempt_id, row.commit_id): row.site for row in rows}

    def list_flows(self, *, actor: Actor, project: str | None) -> Sequence[str]:
        """Return the names of flows."""
        return [flow.name for flow in flows.list_flows(actor=actor, project=project)[:_MOST_FLOWS]]


def _as_text(command: str | tuple[str, ...]) -> str:
    return command if isinstance(command, str) else shlex.join(command)


def _repeat_command(run: Run) -> str:
    """Return the command that runs the same again: this version of the flow and its code, these values, this data."""
    parts = ["nearline", "flow", "run", f"{run.project.name}/{run.flow.name}"]
    if version := str(run.code.get("version") or ""):
        parts += ["--version", version[:12]]
    for key, value in sorted(run.parameters.items()):
        parts += ["-P", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
    for reference, facts in sorted(run.datasets.items()):
        parts += ["--data", f"{reference}={facts['commit'][:12]}"]
    return shlex.join(parts)


sources.add_source(EXPERIMENT_KIND, AttemptSource())
