"""Past use: who had more than its part lately gets less of what lies beyond the quotas."""

from dataclasses import replace

import pytest

from scheduler.engine.session import Session
from scheduler.engine.sharing import SharingRules
from scheduler.engine.snapshot import Policy, Snapshot
from tests.engine.scheduler.test_rounds import gang
from tests.factories.scheduler import node, queue


@pytest.mark.parametrize(
    ("pull", "shares"), [(0.0, {"a": 5000, "b": 5000}), (0.5, {"a": 4000, "b": 6000}), (1.0, {"a": 2000, "b": 8000})]
)
def test_what_lies_beyond_the_quotas_leans_to_who_used_less(pull, shares):
    """With equal weights, parts of 0.5 and use of 0.8 and 0.2: the weight is part + pull x (part - use)."""
    queues = [replace(queue("a", 0), used=(0.8, 0, 0)), replace(queue("b", 0), used=(0.2, 0, 0))]
    jobs = [gang(f"{name}{i}", name, 1, 1, 1, rank=(i,)) for name in "ab" for i in range(10)]

    session = Session(Snapshot([node("n", 10)], queues, jobs), Policy(sharing=SharingRules(usage_pull=pull)))

    assert {name: session.queues[name].fair[0] for name in "ab"} == shares
