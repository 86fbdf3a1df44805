"""Stores why workloads wait: once for all alike.

The numbers of an answer change with every job that starts or ends. Thousands of workloads wait for the same few things,
so an answer is one row that is brought up to date in its place. A workload is written only when what it waits for is
something else.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from core import orm
from scheduler.engine import decisions
from scheduler.engine.proof import Proof
from scheduler.engine.states import WorkloadState
from scheduler.models import Answer, Workload
from scheduler.selectors.snapshots import ClusterView

_MOST_PARTS = 12
"""Of each list of a proof so many are kept: enough for every resource of three levels of queues and then some."""
_FIELDS = ("code", "text", "advice", "proof")


def store(answers: Mapping[str, tuple[ClusterView, Sequence[decisions.Answer]]], *, is_complete: bool) -> None:
    """Store why workloads wait, by the id of their pool. What is stored already is not written again.

    `is_complete`: these are all pools, so no other answer is needed any more. A workload of which some pods run is not
    pending, so nothing is stored for its other pods.
    """
    present: dict[str, decisions.Answer] = {}
    for pool_id, (view, of_pool) in answers.items():
        for answer in of_pool:
            key = _key(pool_id, answer.question)
            if any(job_id in view.answers for job_id in answer.job_ids):
                present[key] = answer
            news = [job_id for job_id in answer.job_ids if view.answers.get(job_id, key) != key]
            for batch in orm.in_batches(news):
                waiting = Workload.objects.filter(pk__in=batch, state=WorkloadState.PENDING)
                waiting.update(reason_code="", reason="", answer=key)
    _replace(present, is_complete=is_complete)


def _key(pool_id: str, question: tuple[object, ...]) -> str:
    """Return the id of an answer: the same in every cycle and on every controller."""
    return f"{Answer.id_prefix}_{sha256(repr((pool_id, question)).encode()).hexdigest()[:24]}"


def _replace(answers: Mapping[str, decisions.Answer], *, is_complete: bool) -> None:
    """Replace the stored answers by these; only what differs is written. Others go only if these are complete."""
    known = {pk: fields for pk, *fields in Answer.objects.values_list("pk", *_FIELDS)}
    contents = {key: [str(each.code), each.text, each.advice, _write(each.proof)] for key, each in answers.items()}
    changed = [
        Answer(id=key, **dict(zip(_FIELDS, fields, strict=True)))
        for key, fields in contents.items()
        if fields != known.get(key)
    ]
    if changed:
        Answer.objects.bulk_create(
            changed, update_conflicts=True, unique_fields=["id"], update_fields=_FIELDS, batch_size=100
        )
    if is_complete and (stale := known.keys() - contents.keys()):
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
