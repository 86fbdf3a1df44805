"""The walk-throughs of TR-4858 and of Run:AI's quick starts, command by command, through whole cycles."""

import pytest

from tests.engine.scheduler.world import World
from tests.factories.scheduler import node, queue, wait

FIRM = True
SECTION_4_8 = [
    ("a-1-1-jupyter", "team-a", 1, FIRM),
    ("a-1-g", "team-a", 1, False),
    ("a-2-gg", "team-a", 2, False),
    ("b-1-g06", "team-b", 0.6, FIRM),
    ("b-2-g04", "team-b", 0.4, FIRM),
    ("b-3-g", "team-b", 1, False),
    ("b-4-gg", "team-b", 2, False),
    ("c-1-g05", "team-c", 0.5, FIRM),
    ("c-2-g03", "team-c", 0.3, FIRM),
    ("c-3-g02", "team-c", 0.2, FIRM),
    ("c-4-gg", "team-c", 2, False),
    ("c-5-g", "team-c", 1, False),
    ("d-1-gggg", "team-d", 4, False),
]


def of_team(names, team):
    return {name for name in names if name.startswith(f"{team[-1]}-")}


class Lab(World):
    """Two machines of eight GPUs, four teams."""

    def __init__(self):
        teams = [("team-a", 4), ("team-b", 2), ("team-c", 2), ("team-d", 8)]
        queues = [queue(name, quota, age=10 - rank) for rank, (name, quota) in enumerate(teams)]
        super().__init__([node("dgx1-1", 8), node("dgx1-2", 8)], queues)
        self.minute = 0

    def run(self, name, team, gpus, firm=False):
        self.minute += 1
        self.submit(wait(name, team, gpus, minute=self.minute, firm=firm, priority=100 if firm else 50))
        self.settle()

    def shares(self):
        return [self.allocated()[team] for team in ("team-a", "team-b", "team-c", "team-d")]


@pytest.fixture
def lab():
    lab = Lab()
    for row in SECTION_4_8:
        lab.run(*row)
    return lab


def test_section_4_8_over_quota_work_fills_the_cluster(lab):
    assert lab.shares() == pytest.approx([4, 4, 4, 4])
    assert len(lab.running()) == 13
    assert lab.waiting() == set()


def test_section_4_9_a_team_claims_its_quota_and_one_job_of_each_over_quota_team_waits(lab):
    interactive = {name: lab.node_of(name) for name, _, _, firm in SECTION_4_8 if firm}

    lab.run("d-2-gg", "team-d", 2)

    assert lab.shares()[3] == pytest.approx(6)
    assert len(lab.waiting()) == 1

    lab.run("d-3-gg", "team-d", 2)

    assert lab.shares() == pytest.approx([4, 2, 2, 8])
    assert lab.waiting() == {"b-4-gg", "c-4-gg"}
    assert {name: lab.node_of(name) for name in interactive} == interactive
    assert of_team(lab.running(), "team-a") == {"a-1-1-jupyter", "a-1-g", "a-2-gg"}
    before = lab.snapshot
    assert [lab.cycle() for _ in range(20)] == [False] * 20
    assert lab.snapshot == before


def test_section_4_10_what_a_team_gives_up_goes_to_the_others_by_quota(lab):
    for name, team in [("d-2-gg", "team-d"), ("d-3-gg", "team-d"), ("a-3-gg", "team-a"), ("a-4-gg", "team-a"),
                       ("b-5-gg", "team-b"), ("c-6-gg", "team-c")]:  # fmt: skip
        lab.run(name, team, 2)
    assert lab.shares() == pytest.approx([4, 2, 2, 8])
    assert [len(of_team(lab.waiting(), team)) for team in ("team-a", "team-b", "team-c", "team-d")] == [2, 2, 2, 0]

    lab.delete("d-1-gggg", "d-2-gg", "d-3-gg")
    lab.settle()

    assert lab.shares() == pytest.approx([8, 4, 4, 0])
    assert [len(of_team(lab.waiting(), team)) for team in ("team-a", "team-b", "team-c", "team-d")] == [0, 1, 1, 0]


def test_the_bin_packing_quick_start_ends_with_a_consolidation():
    world = World([node("n1", 2), node("n2", 2)], [queue("team-a", 2, age=2), queue("team-b", 2, age=1)])
    world.submit(wait("a2", "team-a", 2), wait("a1", "team-a", 1, minute=1), wait("b1", "team-b", 1, minute=2))
    world.settle()
    assert world.allocated() == {"team-a": 3, "team-b": 1}

    world.submit(wait("b2", "team-b", 1, minute=3))
    world.settle()
    assert world.allocated() == {"team-a": 2, "team-b": 2}
    assert world.waiting() == {"a1"}

    world.delete("a2")
    world.settle()
    assert world.waiting() == set()
    (full,) = [name for name in ("n1", "n2") if sum(world.node_of(job) == name for job in ("a1", "b1", "b2")) == 2]

    world.delete("b1" if world.node_of("b1") == full else "b2")
    world.settle()
    world.submit(wait("a2", "team-a", 2, minute=4))
    world.settle()

    assert world.waiting() == set()
    assert world.allocated() == {"team-a": 3, "team-b": 1}


def test_the_fairness_quick_start_divides_four_gpus_evenly():
    world = World([node("n1", 2), node("n2", 2)], [queue("team-a", 1, age=2), queue("team-b", 1, age=1)])
    world.submit(*[wait(f"a{i}", "team-a", 1, minute=i) for i in range(4)])
    world.settle()
    assert world.allocated() == {"team-a": 4, "team-b": 0}

    world.submit(*[wait(f"b{i}", "team-b", 1, minute=10 + i) for i in range(4)])
    world.settle()
    assert world.allocated() == {"team-a": 2, "team-b": 2}

    for deleted, expected in [("b", "b"), ("a", "a"), ("b", "b")]:
        job = next(name for name in sorted(world.running()) if name.startswith(deleted))
        before = world.running()
        world.delete(job)
        world.settle()
        (started,) = world.running() - before
        assert started.startswith(expected)


def test_two_fractions_of_a_small_quota_share_one_device():
    world = World([node("n1", 2), node("n2", 2)], [queue("team-a", 1)])

    world.submit(wait("frac05", "team-a", 0.5, firm=True), wait("frac03", "team-a", 0.3, minute=1))
    world.settle()

    first, second = (job.tasks[0] for job in world.snapshot.jobs)
    assert (first.node_id, first.devices) == (second.node_id, second.devices)
    assert world.allocated() == {"team-a": pytest.approx(0.8)}
