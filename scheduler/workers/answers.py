"""What those who wait are told, written down: the sentence on each workload, advice and proof once for all alike.

The numbers of a proof change with every job that starts or ends. Thousands of workloads wait for the same few things,
so an answer is one row that is brought up to date in its place; a workload is written only when its sentence changes.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from scheduler.engine.decisions import Explain
from scheduler.engine.proof import Proof
from scheduler.engine.states import WorkloadState
from scheduler.models import Answer, Workload
from scheduler.workers.snapshots import View

_TOLD_AT_ONCE = 500
_MOST_PARTS = 12
"""Of each list of a proof so many are kept: enough for every resource of three levels of queues and then some."""


def store(explains: Sequence[Explain], view: View) -> None:
    """Tell workloads why they wait. What they have been told already is not written again."""
    groups: dict[tuple[object, ...], list[Explain]] = defaultdict(list)
    for explain in explains:
        groups[_question(explain, view)].append(explain)
    answers = {_key(question): alike for question, alike in groups.items()}
    _store_answers({key: alike[0] for key, alike in answers.items()})
    for key, alike in answers.items():
        code, text = str(alike[0].code), alike[0].text
        news = [explain.job_id for explain in alike if view.told[explain.job_id] != (code, text, key)]
        for start in range(0, len(news), _TOLD_AT_ONCE):
            batch = news[start : start + _TOLD_AT_ONCE]
            waiting = Workload.objects.filter(pk__in=batch, state=WorkloadState.PENDING)
            waiting.update(reason_code=code, reason=text, answer=key)


def _question(explain: Explain, view: View) -> tuple[object, ...]:
    """Return what an answer depends on in one cycle: what is asked for, what is said, whose bounds it passes."""
    job = view.jobs[explain.job_id]
    bounds_of = (job.queue_id, job.is_preemptible) if explain.proof.bounds else None
    return explain.code, explain.text, job.tasks[0].request, bounds_of


def _key(question: tuple[object, ...]) -> str:
    """Return the id of an answer: the same in every cycle and on every controller."""
    return f"{Answer.id_prefix}_{sha256(repr(question).encode()).hexdigest()[:24]}"


def _store_answers(explains: Mapping[str, Explain]) -> None:
    """Make these the answers that there are; only what differs is written."""
    known = {answer.pk: (answer.advice, answer.proof) for answer in Answer.objects.all()}
    said = {key: (explain.advice, _write(explain.proof)) for key, explain in explains.items()}
    changed = [Answer(id=key, advice=said[key][0], proof=said[key][1]) for key in said if said[key] != known.get(key)]
    if changed:
        Answer.objects.bulk_create(
            changed, update_conflicts=True, unique_fields=["id"], update_fields=["advice", "proof"], batch_size=100
        )
    if stale := known.keys() - said.keys():
        Answer.objects.filter(pk__in=stale).delete()


def _write(proof: Proof) -> Any:
    """Return a proof as it comes back from the database."""
    facts = asdict(proof) | {"others": dict(proof.others)}
    del facts["pools"]  # A workload names one resource, so there is never a proof for each of several.
    return json.loads(
        json.dumps({name: fact[:_MOST_PARTS] if isinstance(fact, tuple) else fact for name, fact in facts.items()})
    )
