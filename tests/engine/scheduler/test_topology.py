"""Which domain of a topology a group goes to: exact nodes."""

from dataclasses import replace

from scheduler.engine.snapshot import JobView, NodeView, Policy, TopologyConstraint
from tests.engine.scheduler.world import gang
from tests.factories.scheduler import decide, held, node, queue

LEVELS = ("zone", "rack")


def at(place: str, gpus: int, **more) -> NodeView:
    """Return a node named after its zone and rack: `east-1`."""
    return replace(node(place, gpus, **more), labels={"zone": place.split("-", maxsplit=1)[0], "rack": place})


def group(count: int, *, gpus: int = 1, cpu: float = 1, required: str | None = None, preferred: str | None = "rack"):
    """Return a gang that is to be kept together."""
    job = gang("group", "a", gpus, count, count)
    pods = tuple(
        replace(pod, request=replace(pod.request, cpu_millicores=round(cpu * 1000), pool="")) for pod in job.pods
    )
    return replace(
        job,
        pods=pods,
        structure=replace(job.structure, topology_constraint=TopologyConstraint(LEVELS, required, preferred)),
    )


def nodes_of(job: JobView, *parts) -> list[str]:
    """Return the nodes on which the pods of a group start, by pod."""
    outcome = decide(*parts, queue("a", 99), job, policy=Policy(reserve_after_s=None))
    return [outcome.nodes[pod.id] for pod in job.pods]


def test_a_group_goes_to_the_fullest_zone_even_where_a_rack_of_another_zone_has_fewer_free_gpus():
    racks = [at("east-1", 3), at("west-1", 2), at("west-2", 4)]

    assert nodes_of(group(2), *racks) == ["east-1", "east-1"]


def test_a_group_that_must_share_a_rack_goes_to_the_fullest_zone_first():
    racks = [at("east-1", 3), at("west-1", 2), at("west-2", 4)]

    assert nodes_of(group(2, required="rack", preferred=None), *racks) == ["east-1", "east-1"]


def test_in_the_fullest_zone_a_group_goes_to_the_fullest_rack():
    racks = [at("east-1", 4), at("east-2", 2), at("east-3", 3), at("west-1", 16)]

    assert nodes_of(group(2), *racks) == ["east-2", "east-2"]


def test_a_rack_that_is_short_of_cores_is_fuller_than_one_with_fewer_free_gpus():
    racks = [at("east-1", 8, cpu=20), at("east-2", 4, cpu=64)]

    assert nodes_of(group(2, cpu=8), *racks) == ["east-1", "east-1"]


def test_a_rack_that_is_short_of_memory_is_fuller_than_one_with_fewer_free_gpus():
    racks = [at("east-1", 8, memory_gib=3), at("east-2", 4)]

    assert nodes_of(group(2), *racks) == ["east-1", "east-1"]


def test_what_runs_counts_for_how_full_a_zone_is():
    racks = [at("east-1", 8), at("west-1", 4)]
    busy = held("busy", "a", "east-1", dict.fromkeys(range(5), 1))

    assert nodes_of(group(2), *racks, busy) == ["east-1", "east-1"]


def test_a_group_that_no_rack_holds_fills_the_freest_rack_of_the_freest_zone_first():
    racks = [at("east-1", 1), at("east-2", 2), at("west-1", 1), at("west-2", 3)]

    assert nodes_of(group(5), *racks) == ["west-2", "west-2", "west-2", "west-1", "east-2"]
