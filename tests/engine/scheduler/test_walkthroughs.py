"""The walk-throughs of TR-4858 and of Run:AI's quick starts, command by command, through whole cycles."""

from dataclasses import replace

import pytest

from scheduler.engine.snapshot import PodState, Quota
from tests.engine.scheduler.test_failures import launcher_with_workers
from tests.engine.scheduler.world import World, gang
from tests.factories.scheduler import cut_node, node, queue, wait
from tests.factories.tr4858 import BASIC_FAIRNESS, FIRM, OVER_QUOTA_FAIRNESS, QUICKSTART, TEAMS

INTERACTIVE = {name for name, _, _, firm, *_ in QUICKSTART if firm}


class Lab(World):
    """Two machines of eight GPUs, four teams. Commands are typed, and some cycles later it is looked at what came."""

    def __init__(self):
        queues = [queue(name, quota, age=10 - rank) for rank, (name, quota) in enumerate(TEAMS.items())]
        super().__init__([node("dgx1-1", 8), node("dgx1-2", 8)], queues)
        self.minute = 0

    def run(self, rows):
        """Type the commands of a table, and compare after each."""
        for name, team, gpus, firm, held, waiting in rows:
            self.minute += 1
            self.submit(wait(name, team, gpus, minute=self.minute, firm=firm, priority=100 if firm else 50))
            self.settle()
            assert (name, self.shares(), self.queued()) == (name, pytest.approx(held), waiting)
        return self

    def shares(self):
        return tuple(self.allocated()[team] for team in TEAMS)

    def queued(self):
        return tuple(sum(name.startswith(f"{team[-1]}-") for name in self.waiting()) for team in TEAMS)

    def nodes(self):
        return {name: self.node_of(name) for name in INTERACTIVE}


def test_section_4_8_over_quota_work_fills_the_cluster():
    lab = Lab().run(QUICKSTART)

    assert len(lab.running()) == 13
    assert lab.evicted == []


def test_section_4_9_a_team_claims_its_quota_and_one_job_of_each_over_quota_team_waits():
    lab = Lab().run(QUICKSTART)
    before = lab.nodes()

    lab.run(BASIC_FAIRNESS)

    assert lab.evicted == ["c-4-gg", "b-4-gg"]
    assert lab.waiting() == {"b-4-gg", "c-4-gg"}
    assert lab.nodes() == before
    rest = lab.snapshot
    assert [lab.cycle() for _ in range(20)] == [False] * 20
    assert lab.snapshot == rest


def test_section_4_10_what_a_team_gives_up_goes_to_the_others_by_quota():
    lab = Lab().run(QUICKSTART + BASIC_FAIRNESS + OVER_QUOTA_FAIRNESS)

    lab.delete("d-1-gggg", "d-2-gg", "d-3-gg")
    lab.settle()

    assert lab.shares() == pytest.approx((8, 4, 4, 0))
    assert lab.queued() == (0, 1, 1, 0)
    assert lab.evicted == ["c-4-gg", "b-4-gg"]


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


def test_n9_two_fractions_of_a_small_quota_share_one_device():
    world = World([node("n1", 2), node("n2", 2)], [queue("team-a", 1)])

    world.submit(wait("frac05", "team-a", 0.5, firm=True), wait("frac03", "team-a", 0.3, minute=1))
    world.settle()

    first, second = (job.pods[0] for job in world.snapshot.jobs)
    assert (first.node_id, first.devices) == (second.node_id, second.devices)
    assert world.allocated() == {"team-a": pytest.approx(0.8)}


def held_of_each(nodes, teams, size=1):
    """Return what teams hold that all want more of the cluster than there is."""
    world = World(nodes, teams)
    gpu_count = sum(len(row.devices) for row in nodes)
    world.submit(*[
        wait(f"{team.name}-{number:03}", team.name, size, minute=number)
        for team in teams for number in range(gpu_count // size)
    ])  # fmt: skip
    world.settle()
    return world.allocated()


@pytest.mark.parametrize(
    ("gpus", "teams", "held"),
    [
        pytest.param(8, [("a", 3, None), ("b", 1, None)], {"a": 6, "b": 2}, id="F1"),
        pytest.param(28, [("one", 2, 2), ("two", 6, 3), ("three", 0, 1)], {"one": 9, "two": 16, "three": 3}, id="F2"),
        pytest.param(100, [("a", 10, 3), ("b", 10, 1)], {"a": 70, "b": 30}, id="F3"),
    ],
)
def test_idle_gpus_are_split_by_weight(gpus, teams, held):
    queues = [queue(name, quota, weight=weight, age=9 - i) for i, (name, quota, weight) in enumerate(teams)]

    assert held_of_each([node("n1", gpus, cpu=1000, memory_gib=1000)], queues) == held


def test_f4_what_a_department_holds_beyond_its_quota_is_over_quota_whatever_its_projects_have():
    departments = [queue("one", 80, age=9), queue("two", 80, age=8)]
    rows = [("one-a", "one", 60), ("one-b", "one", 40), ("two-a", "two", 80)]
    projects = [replace(queue(name, quota, age=5), parent_id=parent) for name, parent, quota in rows]
    world = World([node(f"n{i:02}", 10) for i in range(16)], departments + projects)
    world.submit(*[wait(f"a{i}", "one-a", 10, minute=i) for i in range(6)])
    world.submit(*[wait(f"b{i}", "one-b", 10, minute=i) for i in range(4)])
    world.settle()
    assert [world.allocated()[name] for name, _, _ in rows] == [60, 40, 0]

    world.submit(*[wait(f"c{i}", "two-a", 10, minute=9) for i in range(8)])
    world.settle()

    assert sum(world.allocated()[name] for name in ("one-a", "one-b")) == 80
    assert world.allocated()["two-a"] == 80


def test_f5_a_pod_of_a_parameter_search_is_given_back_and_resumes():
    world = World([node("n1", 4)], [queue("search", 2, age=2), queue("other", 2, age=1)])
    world.submit(*[wait(f"pod{i}", "search", 1, minute=i) for i in range(3)])
    world.settle()
    assert world.allocated() == {"search": 3, "other": 0}

    world.submit(wait("claim", "other", 2, minute=9))
    world.settle()
    assert world.allocated() == {"search": 2, "other": 2}
    assert (world.evicted, world.waiting()) == (["pod2"], {"pod2"})

    world.delete("claim")
    world.settle()
    assert world.running() == {"pod0", "pod1", "pod2"}


def pods_up(world, name):
    (job,) = [job for job in world.snapshot.jobs if job.id == name]
    return sum(pod.state is PodState.RUNNING for pod in job.pods)


def test_f6_an_elastic_job_takes_what_is_idle_and_gives_it_back():
    world = World([node("n1", 2)], [queue("team", 2)])
    world.submit(gang("elastic1", "team", 1, 2, 1))
    world.settle()
    assert pods_up(world, "elastic1") == 2

    world.submit(wait("filler1", "team", 1, minute=1, firm=True, priority=100))
    world.settle()

    assert (pods_up(world, "elastic1"), pods_up(world, "filler1")) == (1, 1)


def test_f7_n16_an_elastic_job_starts_with_what_there_is_and_grows_later():
    world = World([node("n1", 2)], [queue("team", 2)])
    world.submit(wait("filler2", "team", 1, firm=True, priority=100))
    world.settle()

    world.submit(gang("elastic2", "team", 1, 2, 1))
    world.settle()
    assert pods_up(world, "elastic2") == 1

    world.delete("filler2")
    world.settle()
    assert pods_up(world, "elastic2") == 2


MIG_QUICKSTART = [
    # F8, on one A100 of 40 GB: name, what is asked of the device, interactive; then the slices that each job holds.
    ("train-1", {"share_mib": 9537}, False, {"train-1": "0:1g.10gb@6"}),  # --gpu-memory 10GB
    ("train-2", {"mig": (("2g.10gb", 1),)}, False, {"train-1": "0:1g.10gb@6", "train-2": "0:2g.10gb@4"}),
    (
        "train-3", {"mig": (("2g.10gb", 1),)}, False,
        {"train-1": "0:1g.10gb@6", "train-2": "0:2g.10gb@4", "train-3": "0:2g.10gb@0"},
    ),
    (
        "build-1", {"mig": (("3g.20gb", 1),)}, FIRM,
        {"train-1": "0:1g.10gb@6", "train-2": "0:2g.10gb@4", "build-1": "0:3g.20gb@0"},
    ),
]  # fmt: skip


def test_f8_slices_are_cut_as_they_are_asked_for_and_an_interactive_one_takes_the_place_of_one_training():
    world = World([cut_node("n1")], [queue("team", 1)])

    for minute, (name, parts, firm, held) in enumerate(MIG_QUICKSTART):
        world.submit(wait(name, "team", minute=minute, firm=firm, priority=100 if firm else 50, parts=parts))
        world.settle()
        pods = [job.pods[0] for job in world.snapshot.jobs if job.id in world.running()]
        assert {pod.id: ", ".join(pod.devices) for pod in pods} == held

    assert (world.evicted, world.waiting()) == (["train-3"], {"train-3"})


def test_f10_an_interactive_job_takes_the_place_of_training_in_a_project_at_its_limit():
    world = World([node("n1", 4)], [replace(queue("team", 1), limit=Quota(1000, None, None))])
    world.submit(wait("train", "team", 1))
    world.settle()

    world.submit(wait("build", "team", 1, minute=1, firm=True, priority=100))
    world.settle()

    assert (world.running(), world.waiting()) == ({"build"}, {"train"})


def test_n12_of_four_pods_with_two_at_a_time_never_more_than_four_gpus_are_held():
    world = World([node("n1", 8)], [queue("team", 8)])
    left = ["hpo1-3", "hpo1-2", "hpo1-1", "hpo1-0"]
    world.submit(wait(left.pop(), "team", 2), wait(left.pop(), "team", 2))
    finished = []
    while world.snapshot.jobs:
        world.settle()
        assert world.allocated() == {"team": min(4, 8 - 2 * len(finished))}
        finished.append(min(world.running()))
        world.delete(finished[-1])
        if left:
            world.submit(wait(left.pop(), "team", 2))

    assert finished == ["hpo1-0", "hpo1-1", "hpo1-2", "hpo1-3"]


def test_n14_a_launcher_and_its_two_workers_start_together_or_not_at_all():
    world = World([node("n1", 1), node("n2", 1)], [queue("team-a", 2)])
    world.submit(wait("busy", "team-a", 1, firm=True))
    world.settle()

    world.submit(launcher_with_workers("dist", "team-a", 2, rank=(9,)))
    world.settle()
    assert pods_up(world, "dist") == 0

    world.delete("busy")
    world.settle()

    (dist,) = world.snapshot.jobs
    assert world.allocated() == {"team-a": 2}
    assert {pod.id: pod.node_id for pod in dist.pods if pod.request.gpus} == {"dist-0": "n1", "dist-1": "n2"}
    assert pods_up(world, "dist") == 3
