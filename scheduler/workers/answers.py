"""Stores why workloads wait: the sentence with each workload, advice and proof once for all alike.

The numbers of a proof change with every job that starts or ends. Thousands of workloads wait for the same few things,
so an answer is one row that is brought up to date in its place; a workload is written only when its sentence changes.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from core import orm
from scheduler.engine.decisions import Explain
from scheduler.engine.proof import Proof
from scheduler.engine.states import WorkloadState
from scheduler.models import Answer, Workload
from scheduler.selectors.snapshots import ClusterView, StoredAnswer

_MOST_PARTS = 12
"""Of each list of a proof so many are kept: enough for every resource of three levels of queues and then some."""


def store(reasons: Sequence[tuple[Explain, ClusterView]]) -> None:
    """Store why workloads wait. What is stored already is not written again.

    A workload of which some pods run is not pending, so nothing is stored for its other pods.
    """
    groups: dict[tuple[object, ...], list[Explain]] = defaultdict(list)
    stored: dict[str, StoredAnswer] = {}
    questions: dict[object, tuple[object, ...]] = {}
    for explain, view in reasons:
        if (answer := view.answers.get(explain.job_id)) is not None:
            stored[explain.job_id] = answer
            # Those that are alike share their proof, queue and request.
            pod, *others = view.jobs[explain.job_id].pods
            kind = (id(explain.proof), id(pod.request), pod.pod_set, view.jobs[explain.job_id].queue_id)
            if others or kind not in questions:
                questions[kind] = _question(explain, view)
            groups[questions[kind]].append(explain)
    answers = {_key(question): alike for question, alike in groups.items()}
    _store_answers({key: alike[0] for key, alike in answers.items()})
    for key, alike in answers.items():
        code, text = str(alike[0].code), alike[0].text
        news = [explain.job_id for explain in alike if stored[explain.job_id] != (code, text, key)]
        for batch in orm.in_batches(news):
            waiting = Workload.objects.filter(pk__in=batch, state=WorkloadState.PENDING)
            waiting.update(reason_code=code, reason=text, answer=key)


def _question(explain: Explain, view: ClusterView) -> tuple[object, ...]:
    """Return what an answer depends on in one cycle: the request, the reason, and the queue whose bounds it passes."""
    job = view.jobs[explain.job_id]
    bounds_of = (job.queue_id, job.is_preemptible) if explain.proof.bounds else None
    return explain.code, explain.text, tuple((pod.request, pod.pod_set) for pod in job.pods), bounds_of


def _key(question: tuple[object, ...]) -> str:
    """Return the id of an answer: the same in every cycle and on every controller."""
    return f"{Answer.id_prefix}_{sha256(repr(question).encode()).hexdigest()[:24]}"


def _store_answers(explains: Mapping[str, Explain]) -> None:
    """Replace the stored answers by these; only what differs is written."""
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
    """Return a proof as it is stored and as the API shows it."""
    facts = asdict(proof) | {"others": dict(proof.others)}
    del facts["pools"]  # A workload names one resource, so there is never a proof for each of several.
    # Stored rows and the API keep the words of the first release.
    suggestions = [{"way": suggestion.pop("remedy"), **suggestion} for suggestion in facts.pop("suggestions")]
    facts["unblock"] = tuple(suggestions)
    return json.loads(
        json.dumps({name: fact[:_MOST_PARTS] if isinstance(fact, tuple) else fact for name, fact in facts.items()})
    )
