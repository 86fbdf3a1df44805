"""Experiments side by side: what differs, their curves over each other, their files beside each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render

from accounts.permissions import Actor
from accounts.web.requests import PageRequest
from core.errors import InvalidInput
from core.streaming import picture_type
from experiments.engine.columns import Column, Kind
from experiments.engine.recorded import NO_NUMBERS, Reading
from experiments.models import Experiment
from experiments.selectors import artifacts, curves, experiments
from experiments.selectors.artifacts import ArtifactFile
from experiments.selectors.experiments import Comparison
from experiments.web.curves import MOST_CHARTS, MOST_COMPARED, ids_of, lines_of

_MOST_AXES = 12
_MOST_FILES = 100


@dataclass(frozen=True)
class ComparedValues:
    """A row of the comparison: what each experiment has under a name. `differs`: not the same everywhere."""

    name: str
    values: Sequence[object]
    differs: bool


@dataclass(frozen=True)
class File:
    """A path, and the artifact of each experiment there (None: it left none)."""

    path: str
    artifacts: Sequence[ArtifactFile | None]
    differs: bool
    is_picture: bool


def compare_page(request: PageRequest) -> HttpResponse:
    """Put experiments side by side; `all` in the address shows what is the same in all of them, too."""
    experiment_ids = ids_of(request)
    if len(experiment_ids) > MOST_COMPARED:
        raise InvalidInput(
            f"At most {MOST_COMPARED} experiments can be compared on a page; these are {len(experiment_ids)}."
        )
    if not experiment_ids:
        return render(request, "experiments/compare_nothing.html")
    comparison = experiments.compare(actor=request.actor, experiment_ids=experiment_ids)
    shows_all = "all" in request.GET
    groups = [(title, _facts(values)) for title, values in _groups(comparison)]
    files = _files(request.actor, comparison.experiments)
    curved = curves.list_curved(actor=request.actor, experiments=comparison.experiments)
    context = {
        "lines": lines_of(comparison.experiments),
        "ids": ",".join(experiment_ids),
        "shows_all": shows_all,
        "same": sum(not fact.differs for _, facts in groups for fact in facts)
        + sum(not file.differs for file in files),
        "groups": [(title, [fact for fact in facts if shows_all or fact.differs]) for title, facts in groups],
        "pictures": [file for file in files if file.is_picture and (shows_all or file.differs)],
        "files": [file for file in files if not file.is_picture and (shows_all or file.differs)],
        "curved": curved[:MOST_CHARTS],
        "axes": _axes(comparison, curved) if len(experiment_ids) > 1 else None,
    }
    return render(request, "experiments/compare.html", context)


def _groups(comparison: Comparison) -> list[tuple[str, Mapping[str, Sequence[object]]]]:
    rows = comparison.experiments
    commits = [{item["dataset"]: item["commit"][:8] for item in row.datasets if item.get("dataset")} for row in rows]
    times = experiments.times_of(rows)
    where: dict[str, Sequence[object]] = {
        "flow": [f"{row.flow} #{row.run_number}" if row.run_id else None for row in rows],
        "step": [row.step_label or None for row in rows],
        "compute": [row.template or None for row in rows],
        "code": [_code(row) for row in rows],
        "ran": [each and each.ran_s for each in map(times.get, (row.pk for row in rows))],
        **{name: [each.get(name) for each in commits] for name in sorted({name for each in commits for name in each})},
    }
    return [
        ("Parameters", comparison.parameters),
        ("Metrics", comparison.metrics),
        ("Tags", comparison.tags),
        ("Where from", where),
    ]


def _code(row: Experiment) -> str | None:
    commit, diff = str(row.code.get("commit") or "")[:12], str(row.code.get("diff_hash") or "")[:8]
    return f"{commit} + {diff}" if diff else commit or None


def _facts(values: Mapping[str, Sequence[object]]) -> list[ComparedValues]:
    return [ComparedValues(name, each, len({str(value) for value in each}) > 1) for name, each in values.items()]


def _files(actor: Actor, rows: Sequence[Experiment]) -> list[File]:
    """Return the paths under which several experiments left a file."""
    by_path: dict[str, dict[str, ArtifactFile]] = {}
    for artifact in artifacts.list_artifacts_of(actor=actor, experiments=rows):
        by_path.setdefault(artifact.path, {})[artifact.experiment_id] = artifact
    shared = [(path, each) for path, each in sorted(by_path.items()) if len(each) > 1 or len(rows) == 1]
    return [
        File(
            path=path,
            artifacts=[each.get(row.pk) for row in rows],
            differs=len({artifact.content_hash for artifact in each.values()}) > 1 or len(each) < len(rows),
            is_picture=picture_type(path) is not None,
        )
        for path, each in shared[:_MOST_FILES]
    ]


def _axes(comparison: Comparison, curved: Sequence[str]) -> dict[str, object]:
    """Return the axes of the parallel coordinates: parameters and metrics that differ, first those with curves."""
    axes = []
    metrics = dict(sorted(comparison.metrics.items(), key=lambda item: item[0] not in curved))
    for kind, values in ((Kind.PARAM, comparison.parameters), (Kind.METRIC, metrics)):
        for key, each in values.items():
            readings = [None if value is None else Reading.of(value) for value in each]
            if len({reading and reading.text for reading in readings}) > 1:
                low_is_good = Column(kind, key).is_lower_better
                axes.append({"label": key, "kind": kind, "low_is_good": low_is_good, "values": _places(readings)})
    lines = lines_of(comparison.experiments)
    return {
        "axes": axes[:_MOST_AXES],
        "lines": [{"id": line.experiment.pk, "title": line.experiment.title, "hue": line.hue} for line in lines],
    }


def _places(readings: Sequence[Reading | None]) -> list[float | str | None]:
    """Return where experiments are on an axis. On one of numbers, what is NaN or infinite has no place."""
    numbers = [reading.number if reading else None for reading in readings]
    texts = {reading.text for reading in readings if reading and reading.number is None}
    if texts <= NO_NUMBERS and any(number is not None for number in numbers):
        return list(numbers)
    return [None if each is None else each.text if each.number is None else each.number for each in readings]
