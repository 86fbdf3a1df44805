"""All nodes are ranked at once as each of them is ranked alone: in any state, for any request, by any policy."""

import random
from dataclasses import replace

import numpy as np
import pytest

from scheduler.engine import mig
from scheduler.engine.session import Session
from scheduler.engine.shapes import rank_key, rank_nodes
from scheduler.engine.snapshot import (
    CapacityPrices,
    Fill,
    JobView,
    MigStrategy,
    NodeView,
    PodState,
    PodView,
    Policy,
    QueueView,
    Request,
    Snapshot,
)
from tests.factories.scheduler import GIB, ONE_POD, cut_node, node

POOLS = ("", "lab", "east")
LABELS = frozenset({("kind", "a"), ("kind", "b")})
STATES = (PodState.RUNNING, PodState.RUNNING, PodState.TERMINATING, PodState.RESERVED, PodState.STUCK_TERMINATING)
CONVEX, CONCAVE = (tuple((part / 100) ** power for part in range(101)) for power in (1.3, 0.4))
PRICES = CapacityPrices(CONVEX, 9_500.0, 31.5 * GIB, {"lab": 0.37}, served_by_cores=CONCAVE)


def random_node(dice: random.Random, index: int) -> NodeView:
    name, gpus = f"n{index:02}", dice.choice([0, 1, 2, 4, 8])
    plain = replace(
        node(name, gpus, cpu=dice.choice([4, 16, 64]), memory_gib=dice.choice([8, 64, 256]), ready=dice.random() < 0.9),
        pool=dice.choice(POOLS), labels={"kind": dice.choice("abc")}, max_pods=dice.choice([None, 2, 110]),
        device_mib=dice.choice([100, 32_000, 80_000]) if gpus else 0,
    )  # fmt: skip
    chance = dice.random()
    if chance < 0.1 and gpus:
        return replace(cut_node(name, gpus, dice.choice(mig.GEOMETRIES)), pool=plain.pool)
    if chance < 0.2:
        return replace(plain, devices=(), mig_strategy=MigStrategy.MIXED, mig={"mig-1g.5gb": 4, "mig-3g.20gb": 1})
    return replace(plain, mig_strategy=MigStrategy.SINGLE) if chance < 0.25 else plain


def random_request(dice: random.Random) -> Request:
    parts = dice.choice(
        [
            {}, {"gpus": dice.choice([1, 1, 2, 8])}, {"gpus": 1},
            {"share_milli": dice.randint(1, 1000), "devices": dice.choice([1, 1, 1, 2])},
            {"share_mib": dice.choice([1, 50, 4_000, 33_000]), "devices": dice.choice([1, 1, 2])},
            {"mig": ((dice.choice(["mig-1g.5gb", "mig-3g.20gb"]), dice.randint(1, 2)),)},
        ]
    )  # fmt: skip
    names = [f"n{dice.randrange(30):02}", *POOLS[1:], "elsewhere"]
    missing = tuple((name, dice.choice([0, 1, 10**6, 10**12])) for name in names if dice.random() < 0.3)
    return Request(
        **parts, cpu_millicores=dice.choice([0, 500, 8_000]), memory_bytes=dice.choice([0, GIB, 16 * GIB]),
        pool=dice.choice(["", "", *POOLS]), node_labels=dice.choice([None, None, LABELS]),
        missing_bytes=missing if dice.random() < 0.4 else (),
    )  # fmt: skip


def random_job(dice: random.Random, index: int, nodes: list[NodeView]) -> JobView:
    at, request = dice.choice(nodes), replace(random_request(dice), pool="", node_labels=None)
    count = request.gpus or (request.devices if request.is_shared else 0)
    devices = tuple(map(str, dice.sample(at.devices, min(count, len(at.devices)))))
    if request.mig and at.geometry is not None:
        profile = at.geometry.profiles[0]
        devices = tuple(mig.Slice(str(device), profile, dice.choice(profile.starts)).name for device in at.devices[:1])
    state = dice.choice(STATES)
    pod = PodView(
        f"j{index}", state, request, node_id=at.id, devices=() if request.gpus and state == "planned" else devices
    )
    return JobView(f"j{index}", "queue", (pod,), ONE_POD, rank=(index,))


def random_policy(dice: random.Random) -> Policy:
    fill = tuple(Fill)
    return Policy(
        gpu_nodes=dice.choice(fill), cpu_nodes=dice.choice(fill), prices=dice.choice([None, PRICES, PRICES]),
        prefers_free_now=dice.random() < 0.7, prefers_shared_devices=dice.random() < 0.7,
        keeps_cpu_work_off_gpus=dice.random() < 0.7,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_all_nodes_are_ranked_at_once_as_each_is_alone_in_any_state(seed):
    dice = random.Random(seed)
    nodes = [random_node(dice, index) for index in range(30)]
    jobs = [random_job(dice, index, nodes) for index in range(dice.choice([0, 20, 60]))]
    session = Session(Snapshot(nodes, [QueueView("queue", "queue")], jobs), random_policy(dice))
    everywhere = slice(None)

    for _ in range(4):
        for _ in range(12):
            request = random_request(dice)
            keys = rank_nodes(session.table, request, session.policy, everywhere).tolist()
            assert keys == [rank_key(ledger, request, session.policy) for ledger in session.nodes], request
            some = np.array(dice.sample(range(len(nodes)), 13))
            assert rank_nodes(session.table, request, session.policy, some).tolist() == [keys[at] for at in some]
        up = [pod for job in session.jobs.values() for pod in job.pods if pod.state is PodState.RUNNING]
        for pod in dice.sample(up, len(up) // 2):
            session.evict(pod)
