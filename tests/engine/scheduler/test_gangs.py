"""Gangs: what starts together, grows one by one, and is given up when too little of it is left."""

from dataclasses import replace

from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Reserve, Start, Stop
from scheduler.engine.snapshot import NEARLINE, JobView, PodState
from tests.engine.scheduler.test_failures import groups, launcher_with_workers
from tests.engine.scheduler.world import World, gang
from tests.factories.scheduler import held, node, queue, snapshot_of, wait

GRACE_S = NEARLINE.stale_grace_s


def started(world: World) -> list[str]:
    return sorted(decision.pod_id for decision in world.decisions if isinstance(decision, Start))


def up(job: JobView, *devices: str) -> JobView:
    """Return a job whose first pods run on these devices of node n1."""
    pods = list(job.pods)
    for number, device in enumerate(devices):
        pods[number] = replace(pods[number], state=PodState.RUNNING, node_id="n1", devices=(device,))
    return replace(job, pods=tuple(pods))


def stops(*parts) -> list[str]:
    decisions = run_cycle(snapshot_of(*parts), NEARLINE, ["evict_stale_gangs"])
    return [decision.pod_id for decision in decisions if isinstance(decision, Stop)]


def test_a_gang_that_does_not_fit_as_a_whole_starts_nothing():
    world = World([node("n1", 2), node("n2", 1)], [queue("a", 4)])

    world.submit(gang("g", "a", 1, 4, 4), wait("small", "a", 1, minute=9))
    world.cycle()

    assert started(world) == ["small"]


def test_an_elastic_gang_starts_with_its_minimum_and_grows():
    world = World([node("n1", 3)], [queue("a", 3)])

    world.submit(gang("g", "a", 1, 4, 2))
    world.cycle()

    assert started(world) == ["g-0", "g-1", "g-2"]
    assert world.waiting() == {"g"}


def test_elastic_gangs_grow_in_turns():
    world = World([node("n1", 4)], [queue("a", 2), queue("b", 2)])

    world.submit(gang("x", "a", 1, 4, 1, rank=(1,)), gang("y", "b", 1, 4, 1, rank=(2,)))
    world.cycle()

    assert started(world) == ["x-0", "x-1", "y-0", "y-1"]


def test_an_elastic_gang_gives_back_what_is_beyond_its_minimum_first():
    world = World([node("n1", 4)], [queue("a", 2), queue("b", 2)])
    world.submit(gang("x", "a", 1, 4, 1))
    world.settle()

    world.submit(gang("y", "b", 1, 2, 2))
    world.settle()

    assert world.allocated() == {"a": 2, "b": 2}
    assert world.evicted == ["x-3", "x-2"]


def test_an_elastic_gang_that_loses_its_minimum_on_one_node_keeps_nothing_on_others():
    places = {"e-0": ("n1", (0, 1)), "e-1": ("n1", (2, 3)), "e-2": ("n2", (0, 1))}
    pods = [held(name, "a", at, dict.fromkeys(devices, 1)).pods[0] for name, (at, devices) in places.items()]
    elastic = replace(gang("e", "a", 2, 3, 2), pods=tuple(pods))

    decisions = run_cycle(
        snapshot_of(node("n1", 4), node("n2", 2), queue("a"), queue("b", 4), elastic, wait("w", "b", 4)), NEARLINE
    )

    assert sorted(decision.pod_id for decision in decisions if isinstance(decision, Stop)) == ["e-0", "e-1", "e-2"]


def test_a_launcher_starts_with_all_of_its_workers_or_not_at_all():
    world = World([node("n1", 2)], [queue("a", 2)])
    world.submit(wait("busy", "a", 1, firm=True))
    world.settle()

    world.submit(launcher_with_workers("mpi", "a", 2, rank=(1,)))
    world.settle()
    assert world.running() == {"busy"}

    world.delete("busy")
    world.cycle()
    assert started(world) == ["mpi-0", "mpi-1", "mpi-l"]


def test_a_gang_is_promised_its_room_as_a_whole():
    terminating = held("old", "a", "n1", {0: 1})
    terminating = replace(terminating, pods=(replace(terminating.pods[0], state=PodState.TERMINATING),))

    decisions = run_cycle(snapshot_of(node("n1", 2), queue("a", 2), terminating, gang("g", "a", 1, 2, 2)), NEARLINE)

    assert decisions == [Reserve("g", "g-0", "n1"), Reserve("g", "g-1", "n1")]


def test_what_is_left_of_a_gang_goes_when_its_grace_is_over():
    parts = node("n1", 4), queue("a", 4)
    rest = up(gang("g", "a", 1, 3, 3), "0", "1")

    assert stops(*parts, replace(rest, stale_for_s=GRACE_S - 1)) == []
    assert stops(*parts, replace(rest, stale_for_s=GRACE_S)) == ["g-0", "g-1"]
    assert stops(*parts, replace(rest, stale_for_s=GRACE_S, stale_grace_s=-1)) == []


def test_the_order_in_which_pods_are_listed_is_not_that_in_which_they_go():
    rest = up(gang("g", "a", 1, 3, 3), "0", "1")
    mixed = replace(rest, stale_for_s=GRACE_S, pods=rest.pods[::-1])

    assert stops(node("n1", 4), queue("a", 4), mixed) == ["g-0", "g-1"]


def test_a_member_of_a_gang_that_got_lost_is_replaced():
    world = World([node("n1", 4)], [queue("a", 4)])
    world.submit(up(gang("g", "a", 1, 3, 3), "0", "1"))

    world.cycle()

    assert started(world) == ["g-2"]


def test_groups_that_are_not_needed_do_not_make_a_job_stale():
    job = up(groups("g", "a", 3, stale_for_s=GRACE_S), "0", "0", "1", "1")

    assert stops(node("n1", 2), queue("a", 2), job) == []


def test_half_of_the_groups_that_are_needed_makes_a_job_stale():
    job = up(groups("g", "a", 3, stale_for_s=GRACE_S), "0", "0", "1")

    assert stops(node("n1", 2), queue("a", 2), job) == ["g-g0-0", "g-g0-1", "g-g1-0"]
