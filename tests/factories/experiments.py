"""Experiments by the thousand, written straight into the tables, for tests of lists, benchmarks and looking at pages."""

import math
import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from blake3 import blake3

from accounts.models import Project
from core import clock
from experiments.adapters import artifact_folder
from experiments.models import Experiment, MetricLast, MetricPoint
from experiments.services import record_writing
from experiments.services.record_writing import Kind
from flows.models import Attempt, Flow, FlowVersion, Run, Step

_BATCH = 2000


def keep_in_old_folder(data: bytes) -> str:
    """Store bytes as the first release did, and return their hash."""
    content_hash = blake3(data).hexdigest()
    path = artifact_folder.path_of(content_hash)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return content_hash


def make_run(project: Project, *, flow: str = "digits", number: int = 1, by: str = "ada") -> Run:
    """Make a run of a flow that has ended."""
    row, _ = Flow.objects.get_or_create(project=project, name=flow, defaults={"updated_at": clock.now()})
    version, _ = FlowVersion.objects.get_or_create(
        flow=row,
        number=1,
        defaults={
            "hash": f"{row.pk}",
            "spec": {"flow": flow, "steps": [{"name": "train", "command": "python train.py"}]},
            "text": "",
            "format": "yaml",
            "created_by": by,
        },
    )
    return Run.objects.create(
        project=project, flow=row, version=version, number=number, state="succeeded", created_by=by
    )


def make_experiments(
    run: Run, count: int, describe: Callable[[int], Mapping[str, Any]], *, step: str = "train"
) -> list:
    """Make experiments as `describe(index)` says: title, parameters, tags, datasets, metrics, state, took_s, …

    A metric is a number, or a list of numbers: its curve.
    """
    now = clock.now()
    first = Step.objects.filter(run=run).count()
    said = [dict(describe(index)) for index in range(count)]
    steps = Step.objects.bulk_create(
        [
            Step(
                run=run,
                key=step,
                index=first + index,
                label=f"{step} seed={first + index}",
                position=0,
                state="succeeded",
            )
            for index in range(count)
        ],
        _BATCH,
    )
    attempts = Attempt.objects.bulk_create(
        [
            Attempt(
                run=run,
                step=row,
                number=1,
                template=each.pop("template", "this-machine.small"),
                state=each.pop("state", "succeeded"),
                job_name=f"{run.pk}-{step}-{row.index}".replace("_", "-"),
                started_at=now - timedelta(hours=1),
                finished_at=None
                if (took := each.pop("took_s", 60.0)) is None
                else now + timedelta(seconds=took - 3600),
            )
            for row, each in zip(steps, said, strict=True)
        ],
        _BATCH,
    )
    metrics = [each.pop("metrics", {}) for each in said]
    points = [each.pop("points", True) for each in said]
    rows = Experiment.objects.bulk_create(
        [
            Experiment(
                project=run.project,
                source_kind="attempt",
                source_id=attempt.pk,
                run_id=run.pk,
                flow=run.flow.name,
                run_number=run.number,
                step_key=attempt.step.key,
                step_label=attempt.step.label,
                step_index=attempt.step.index,
                attempt_number=attempt.number,
                job_name=attempt.job_name,
                template=attempt.template,
                created_by=run.created_by,
                state=attempt.state,
                started_at=attempt.started_at,
                finished_at=attempt.finished_at,
                title=each.pop("title", f"{step}-{attempt.step.index}"),
                is_recorded=each.pop("is_recorded", True),
                **each,
            )
            for attempt, each in zip(attempts, said, strict=True)
        ],
        _BATCH,
    )
    record_writing.write_given_facts(rows)
    record_writing.write_facts((row, Kind.TAG, row.tags) for row in rows)
    record_writing.write_keys((run.project_id, Kind.METRIC, key) for each in metrics for key in each)
    _measure(rows, metrics, points)
    return rows


def _measure(rows, metrics, points) -> None:
    now = clock.now()
    lasts, curves = [], []
    for row, each, is_drawn in zip(rows, metrics, points, strict=True):
        for key, value in each.items():
            values = value if isinstance(value, list) else [value]
            stored = [None if math.isnan(number) else float(number) for number in values]
            lasts.append(
                MetricLast(experiment=row, key=key, step=len(values) - 1, value=stored[-1], points=len(values), at=now)
            )
            if is_drawn:
                curves.extend(
                    MetricPoint(
                        experiment=row,
                        key=key,
                        step=step,
                        value=number,
                        at=now + timedelta(seconds=step * (1 + len(row.title) % 3)),
                    )
                    for step, number in enumerate(stored)
                )
    MetricLast.objects.bulk_create(lasts, _BATCH)
    MetricPoint.objects.bulk_create(curves, _BATCH)


_WORDS = (
    "brisk calm dusty early even fast gentle keen lucid mild",
    "heron otter finch crane ibis lark wren swift stork owl",
)


def describe_training(index: int, *, metrics: int = 6, curve: int = 0) -> dict[str, Any]:
    """Describe a plausible training: a rate, a batch size, accuracy and loss that follow from them, and noise."""
    chance = random.Random(index)
    rate, batch = chance.choice([0.1, 0.03, 0.01, 0.003, 0.001]), chance.choice([32, 64, 128, 256])
    best = 0.97 - abs(math.log10(rate) + 2) * 0.06 - chance.random() * 0.05
    adjectives, birds = (words.split() for words in _WORDS)
    steps = range(max(1, curve))
    shape = [1 - math.exp(-6 * (at + 1) / len(steps)) for at in steps]
    noise = [chance.uniform(-0.02, 0.02) for _ in steps]
    measured: dict[str, Any] = {
        "val_auc": [round(best * part + wobble, 5) for part, wobble in zip(shape, noise, strict=True)],
        "val_loss": [round(1.1 - best * part - wobble, 5) for part, wobble in zip(shape, noise, strict=True)],
        **{f"class_{number:02}/recall": round(best - chance.random() * 0.2, 5) for number in range(metrics - 2)},
    }
    failed = index % 17 == 5
    return {
        "title": f"{chance.choice(adjectives)}-{chance.choice(birds)}-{index}",
        "parameters": {"lr": rate, "batch_size": batch, "optimizer": chance.choice(["adam", "sgd"]), "seed": index},
        "tags": {"best": ""} if index % 50 == 7 else {"split": "patient"} if index % 3 == 0 else {},
        "datasets": [{"dataset": "chest/xrays", "reference": "chest/xrays@main", "commit": f"{index % 4:02}" * 32}],
        "state": "failed" if failed else "succeeded",
        "took_s": 30 + chance.random() * 4000,
        "template": chance.choice(["dgx.gpu-2", "cloud.v100-2", "this-machine.small"]),
        "metrics": {} if failed else measured,
        "points": curve > 0,
    }
