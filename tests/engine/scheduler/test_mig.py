"""MIG: slices that are cut once, and devices that are cut as requests come."""

import random
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine import mig
from scheduler.engine.cycle import ACTIONS
from scheduler.engine.decisions import Reserve, Stop, StopCode
from scheduler.engine.jobs import Pod
from scheduler.engine.ledger import HOLDING, NodeLedger
from scheduler.engine.mig import A30, A100_40, A100_80, H100_80, H200_141, Opening
from scheduler.engine.placing import pick_devices
from scheduler.engine.proof import NodeShortfall, Shortage
from scheduler.engine.rules.packing import price_capacity
from scheduler.engine.session import Session
from scheduler.engine.snapshot import (
    NEARLINE,
    PARITY,
    Fill,
    JobView,
    MigStrategy,
    NodeView,
    PodState,
    Policy,
    Quota,
    Request,
    Snapshot,
)
from tests.engine.scheduler.rebuilt_session import differences
from tests.engine.scheduler.test_failures import (
    OCCUPYING,
    check_gangs,
    check_starts,
    check_that_nobody_is_forgotten,
    end_some,
    make_trouble,
)
from tests.engine.scheduler.test_properties import RUNNING
from tests.engine.scheduler.world import UP, Flaky, World, apply, gang
from tests.factories.scheduler import cut_node, decide, held, needs, node, queue, wait

TEAM = queue("team", 8)
TEN_GB_MIB = 9537
"""Ten billion bytes."""


def asks(name: str, *profiles: str, **more) -> JobView:
    """Return a job of the team that waits for slices."""
    return wait(name, "team", parts={"mig": tuple(Counter(profiles).items())}, **more)


def running(job: JobView, node_name: str, *devices: str) -> JobView:
    """Return a job that holds these devices."""
    return replace(job, pods=(replace(job.pods[0], state=PodState.RUNNING, node_id=node_name, devices=devices),))


# --- what GPUs may be cut into


@pytest.mark.parametrize(
    ("model", "device_mib", "geometry"),
    [
        ("NVIDIA A30", 24_576, A30),
        ("NVIDIA A100-SXM4-40GB", 40_960, A100_40),
        ("NVIDIA A100-PCIE-40GB", 40_536, A100_40),
        ("NVIDIA A100 80GB PCIe", 81_920, A100_80),
        ("NVIDIA A100-SXM4-80GB", 81_251, A100_80),
        ("NVIDIA H100 80GB HBM3", 81_559, H100_80),
        ("NVIDIA H200", 143_771, H200_141),
        ("NVIDIA H100 NVL", 95_830, None),
        ("NVIDIA GH200 480GB", 97_871, None),
        ("Tesla V100-SXM2-32GB", 32_510, None),
    ],
)
def test_a_model_is_found_by_its_name_and_its_memory(model, device_mib, geometry):
    assert mig.find_geometry(model, device_mib) is geometry


@pytest.mark.parametrize(
    ("geometry", "placements"),
    [
        (A100_40, "1g.5gb 1:0123456, 1g.10gb 2:0246, 2g.10gb 2:024, 3g.20gb 4:04, 4g.20gb 4:0, 7g.40gb 8:0"),
        (A100_80, "1g.10gb 1:0123456, 1g.20gb 2:0246, 2g.20gb 2:024, 3g.40gb 4:04, 4g.40gb 4:0, 7g.80gb 8:0"),
        (H100_80, "1g.10gb 1:0123456, 1g.20gb 2:0246, 2g.20gb 2:024, 3g.40gb 4:04, 4g.40gb 4:0, 7g.80gb 8:0"),
        (H200_141, "1g.18gb 1:0123456, 1g.35gb 2:0246, 2g.35gb 2:024, 3g.71gb 4:04, 4g.71gb 4:0, 7g.141gb 8:0"),
        (A30, "1g.6gb 1:0123, 2g.12gb 2:02, 4g.24gb 4:0"),
    ],
)
def test_slices_take_memory_slices_and_begin_where_the_vendor_says(geometry, placements):
    rows = [f"{p.name} {p.size}:{''.join(map(str, p.starts))}" for p in geometry.profiles]

    assert ", ".join(rows) == placements


@pytest.mark.parametrize(
    ("geometry", "mib", "profile"),
    [
        (A100_40, 1, "1g.5gb"),
        (A100_40, TEN_GB_MIB, "1g.10gb"),
        (A100_40, 10_240, "3g.20gb"),
        (A100_40, 38_912, "7g.40gb"),
        (A100_40, 38_913, None),
        (H100_80, TEN_GB_MIB, "1g.10gb"),
        (A30, TEN_GB_MIB, "2g.12gb"),
    ],
)
def test_memory_is_served_by_the_smallest_slice_that_really_holds_it(geometry, mib, profile):
    found = geometry.smallest(mib)

    assert (found and found.name) == profile


@pytest.mark.parametrize("name", ["0:3g.20gb@4", "GPU-7:1g.5gb@6", "0:7g.40gb@0"])
def test_a_slice_is_named_by_device_profile_and_start(name):
    found = mig.read_slice(name, A100_40)

    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("name", ["0", "0:3g.20gb", "0:3g.20gb@2", "0:3g.40gb@0", "0:3g.20gb@x"])
def test_what_no_such_device_has_is_no_slice(name):
    assert mig.read_slice(name, A100_40) is None


# --- where slices go

CHOICES = [
    # What comes one after the other to two empty devices, and where each begins: the large places stay open longest.
    ("1g.5gb 1g.5gb 1g.5gb 1g.5gb 3g.20gb", "0@6 0@4 0@5 0@0 1@4"),
    ("2g.10gb 2g.10gb 2g.10gb 1g.5gb 4g.20gb", "0@4 0@0 0@2 0@6 1@0"),
    ("3g.20gb 3g.20gb 3g.20gb 4g.20gb 7g.40gb", "0@4 0@0 1@4 1@0 -"),
    ("1g.10gb 1g.10gb 2g.10gb 3g.20gb", "0@6 0@4 0@0 1@4"),
    ("4g.20gb 7g.40gb 3g.20gb", "0@0 1@0 0@4"),
]


@pytest.mark.parametrize(("profiles", "places"), CHOICES)
def test_a_slice_goes_where_most_is_left_for_what_may_still_come(profiles, places):
    taken, found = [0, 0], []
    for name in profiles.split():
        profile = A100_40.find(name)
        assert profile is not None
        openings = [Opening(str(index), bits, 0) for index, bits in enumerate(taken)]
        chosen = mig.choose(A100_40, [profile], openings)
        found.append(f"{chosen[0].device}@{chosen[0].start}" if chosen else "-")
        if chosen:
            taken[int(chosen[0].device)] |= chosen[0].bits

    assert " ".join(found) == places


def test_a_slice_goes_where_nobody_has_to_leave():
    profile = A100_40.find("3g.20gb")
    assert profile is not None

    chosen = mig.choose(A100_40, [profile], [Opening("0", 0, 0b11110000), Opening("1", 0b1, 0b00100000)])

    assert chosen is not None
    assert [part.name for part in chosen] == ["0:3g.20gb@0"]


geometries = st.sampled_from(mig.GEOMETRIES)
usual = settings(deadline=None)


@st.composite
def questions(draw):
    """Return a geometry, up to two devices partly taken, and some slices that are asked for."""
    geometry = draw(geometries)
    taken = draw(st.lists(st.integers(0, geometry.bits), min_size=1, max_size=2))
    return geometry, taken, draw(st.lists(st.sampled_from(geometry.profiles), min_size=1, max_size=4))


def has_place_for_all(profiles, taken) -> bool:
    """Return, by trying everything, whether all slices find capacity together."""
    if not profiles:
        return True
    first, *rest = profiles
    return any(
        has_place_for_all(rest, [*taken[:index], bits | first.bits(start), *taken[index + 1 :]])
        for (index, bits), start in product(enumerate(taken), first.starts)
        if not bits & first.bits(start)
    )


@usual
@given(questions())
def test_slices_fit_exactly_when_some_way_of_placing_them_does(question):
    _, taken, profiles = question

    assert mig.fits(profiles, taken) == has_place_for_all(profiles, taken)


@usual
@given(questions(), st.integers(0, 255))
def test_chosen_slices_are_those_asked_for_and_overlap_nothing(question, terminating):
    geometry, taken, profiles = question
    openings = [Opening(str(index), bits, terminating & ~bits) for index, bits in enumerate(taken)]

    chosen = mig.choose(geometry, profiles, openings)

    assert (chosen is not None) == mig.fits(profiles, taken)
    for part in chosen or ():
        assert part.start in part.profile.starts
        assert not taken[int(part.device)] & part.bits
        taken[int(part.device)] |= part.bits
    assert chosen is None or Counter(part.profile for part in chosen) == Counter(profiles)


@usual
@given(questions())
def test_as_many_slices_of_a_kind_are_counted_as_fit_beside_the_others(question):
    _, taken, profiles = question
    counts = mig.count_each(profiles, taken)

    assert mig.fits(profiles, taken) == all(counts[profile] >= profiles.count(profile) for profile in profiles)


@usual
@given(st.lists(st.integers(0, 255), max_size=20), st.randoms(use_true_random=False))
def test_users_of_memory_slices_are_counted_exactly_both_ways(parts, dice):
    users = sum(map(mig.users_of, parts))

    counts = [sum(bits >> index & 1 for bits in parts) for index in range(8)]
    assert mig.taken_by(users) == sum(1 << index for index, count in enumerate(counts) if count)
    assert [mig.is_crowded(users, 1 << index) for index in range(8)] == [count > 1 for count in counts]
    dice.shuffle(parts)
    for bits in parts:
        users -= mig.users_of(bits)
    assert users == 0


# --- whole cycles


def test_slices_of_several_profiles_that_are_cut_once_are_counted():
    mixed = replace(node("n1"), mig_strategy=MigStrategy.MIXED, mig={"1g.5gb": 2, "2g.10gb": 1})

    outcome = decide(mixed, TEAM, asks("one", "1g.5gb", "1g.5gb"), asks("two", "2g.10gb"), asks("three", "1g.5gb"))

    assert outcome.order == ["one", "two"]
    assert outcome.texts == {
        "three": "needs 1 MIG slice of 1g.5gb on lab; most free on one node is 0 MIG slices of 1g.5gb (n1)"
    }


@pytest.mark.parametrize("strategy", [MigStrategy.SINGLE, MigStrategy.MIXED])
@pytest.mark.parametrize("parts", [{"share_milli": 500}, {"share_mib": 1000}])
def test_where_slices_are_cut_once_nobody_shares_devices(strategy, parts):
    outcome = decide(replace(node("n1", 2), mig_strategy=strategy), TEAM, wait("job", "team", parts=parts))

    assert outcome.codes == {"job": "never_fits"}


def test_where_all_gpus_are_cut_alike_a_slice_is_a_device():
    single = replace(node("n1", 7), mig_strategy=MigStrategy.SINGLE)

    outcome = decide(single, TEAM, wait("job", "team", 2))

    assert outcome.gpus == {"job": {0: 1000, 1: 1000}}


def test_memory_is_served_by_a_slice_where_devices_are_cut_and_fractions_are_refused():
    outcome = decide(
        cut_node("n1"),
        TEAM,
        wait("memory", "team", parts={"share_mib": TEN_GB_MIB}),
        wait("fraction", "team", 0.5, minute=1),
    )

    assert outcome.devices == {"memory": ("0:1g.10gb@6",)}
    assert outcome.codes == {"fraction": "never_fits"}


def test_memory_of_several_devices_is_served_by_as_many_slices():
    outcome = decide(cut_node("n1"), TEAM, wait("memory", "team", parts={"share_mib": TEN_GB_MIB, "devices": 2}))

    assert outcome.devices == {"memory": ("0:1g.10gb@6", "0:1g.10gb@4")}


def test_several_slices_of_a_request_are_placed_so_that_all_of_them_fit():
    outcome = decide(cut_node("n1"), TEAM, asks("job", "1g.5gb", "3g.20gb", "2g.10gb", "1g.5gb"))

    assert outcome.devices == {"job": ("0:3g.20gb@4", "0:2g.10gb@0", "0:1g.5gb@2", "0:1g.5gb@3")}


def test_the_prefix_of_a_kubernetes_resource_is_understood():
    outcome = decide(cut_node("n1"), TEAM, asks("job", "nvidia.com/mig-3g.20gb"))

    assert outcome.devices == {"job": ("0:3g.20gb@4",)}


def test_a_device_that_is_cut_serves_no_whole_gpu_and_the_other_way_round():
    slices = running(asks("slices", "1g.5gb"), "n1", "0:1g.5gb@6")

    outcome = decide(
        cut_node("n1", 2), TEAM, slices, wait("whole", "team", 1), wait("wider", "team", 2, minute=1),
        *[asks(f"large{i}", "3g.20gb", minute=2 + i) for i in range(2)],
    )  # fmt: skip

    assert outcome.devices == {"whole": ("1",), "large0": ("0:3g.20gb@0",)}
    assert outcome.codes == {"wider": "no_room", "large1": "no_room"}


def test_a_device_that_was_cut_is_whole_again_when_it_is_empty():
    world = World([cut_node("n1")], [TEAM])
    world.submit(asks("slices", "1g.5gb"))
    world.settle()
    world.submit(wait("whole", "team", 1, minute=1))
    world.settle()
    assert world.waiting() == {"whole"}

    world.delete("slices")
    world.settle()

    assert world.running() == {"whole"}


def test_work_that_shares_a_device_since_before_it_could_be_cut_keeps_it_whole():
    outcome = decide(cut_node("n1"), TEAM, held("before", "team", "n1", {0: 0.5}), asks("slice", "1g.5gb"))

    assert outcome.codes == {"slice": "no_room"}


def test_slices_go_first_to_devices_that_are_cut_already():
    outcome = decide(
        cut_node("n1", 2), cut_node("n2", 2), TEAM,
        held("whole", "team", "n1", {0: 1}), running(asks("slice", "1g.5gb"), "n2", "0:1g.5gb@6"), asks("next", "2g.10gb"),
    )  # fmt: skip

    assert (outcome.nodes["next"], outcome.devices["next"]) == ("n2", ("0:2g.10gb@4",))


def test_a_slice_may_begin_where_it_is_free_though_others_still_leave_the_device():
    terminating = running(asks("leaving", "3g.20gb"), "n1", "0:3g.20gb@4")
    terminating = replace(terminating, pods=(replace(terminating.pods[0], state=PodState.TERMINATING),))

    outcome = decide(cut_node("n1"), TEAM, terminating, asks("first", "3g.20gb"), asks("second", "3g.20gb", minute=1))

    assert outcome.devices == {"first": ("0:3g.20gb@0",)}
    assert [(d.pod_id, d.devices) for d in outcome.decisions if isinstance(d, Reserve)] == [
        ("second", ("0:3g.20gb@4",))
    ]


def test_slices_are_placed_by_what_room_is_worth_to_the_work_to_come():
    nodes = [cut_node("n1", 2), replace(node("n2", 2), device_mib=40_960)]
    memory = Request(share_mib=9000, pool="lab")
    prices = price_capacity([(needs(1), 1), (needs(0.5), 2), (memory, 1)], nodes)
    policy = replace(NEARLINE, gpu_nodes=Fill.MIX, devices=Fill.MIX, prices=prices)

    outcome = decide(
        *nodes,
        TEAM,
        asks("slice", "2g.10gb"),
        wait("memory", "team", minute=1, parts={"share_mib": 9000}),
        policy=policy,
    )

    assert outcome.devices == {"slice": ("0:2g.10gb@4",), "memory": ("0:1g.10gb@6",)}


# --- what slices count for


@pytest.mark.parametrize(
    ("profile", "milli"), [("1g.5gb", 125), ("1g.10gb", 250), ("2g.10gb", 250), ("3g.20gb", 500), ("7g.40gb", 1000)]
)
def test_a_slice_that_is_cut_on_demand_counts_as_the_part_of_the_device_that_it_takes(profile, milli):
    request = Request(mig=((profile, 1),))

    assert request.charge_milli(A100_40) == milli
    assert request.charge_milli(40_960) == int(profile[0]) * 1000


@usual
@given(questions())
def test_the_slices_of_a_device_never_count_for_more_than_it(question):
    geometry, _, profiles = question

    assert not mig.fits(profiles, [0]) or geometry.charge_milli(profiles) <= 1000


def test_two_large_slices_are_within_a_quota_of_one_gpu():
    jobs = [asks(f"job{i}", "3g.20gb", minute=i, firm=True) for i in range(3)]

    outcome = decide(cut_node("n1", 2), queue("team", 1), *jobs)

    assert outcome.order == ["job0", "job1"]
    assert outcome.texts["job2"] == (
        "is not preemptible, so it must stay within the quota: it needs 0.5 GPU, the quota of team is 1 GPU, and "
        "its jobs that are not preemptible hold 1 GPU"
    )


def test_where_a_slice_counts_for_more_than_a_limit_leaves_it_does_not_go():
    mixed = replace(node("n0"), mig_strategy=MigStrategy.MIXED, mig={"3g.20gb": 4})
    team = replace(TEAM, limit=Quota(1000, None, None))

    outcome = decide(mixed, cut_node("n1"), team, asks("job", "3g.20gb"))

    assert outcome.nodes == {"job": "n1"}


def test_what_slices_count_does_not_depend_on_the_pool_that_is_tried():
    cut_once = replace(node("n0", resource="a"), mig_strategy=MigStrategy.MIXED, mig={"3g.20gb": 0})
    job = replace(asks("job", "3g.20gb", resource=""), pools=("a", "b"))
    session = Session(Snapshot([cut_once, cut_node("n1", resource="b")], [TEAM], [job]), NEARLINE)

    for action in ACTIONS.values():
        action(session)
    (pod,) = session.moved_since(0)
    assert (pod.state, pod.devices) == (PodState.STARTING, ("0:3g.20gb@4",))
    session.change([])

    assert differences(session) == []


# --- who makes capacity


def places(world: World) -> dict[str, tuple[str, ...]]:
    """Return where each job is."""
    return {job.id: job.pods[0].devices for job in world.snapshot.jobs}


def test_a_victim_whose_slice_is_not_taken_goes_on_as_if_nothing_had_been():
    starts = [6, 5, 4, 3, 1, 2, 0]  # of the three youngest, those at 0 and 1 are in the way
    world = World([cut_node("n1")], [TEAM])
    world.submit(*[
        running(asks(f"train{i}", "1g.5gb", minute=i), "n1", f"0:1g.5gb@{start}") for i, start in enumerate(starts)
    ])  # fmt: skip
    before = places(world)

    world.submit(asks("build", "2g.10gb", minute=9, firm=True, priority=100))
    world.settle()

    assert world.evicted == ["train6", "train4"]
    assert places(world) == {**before, "build": ("0:2g.10gb@0",), "train4": (), "train6": ()}


def test_slices_are_moved_together_so_that_a_larger_one_finds_room():
    apart = [
        running(asks("here", "1g.5gb"), "n1", "0:1g.5gb@0"),
        running(asks("there", "1g.5gb", minute=1), "n1", "0:1g.5gb@4"),
    ]
    world = World([cut_node("n1")], [TEAM])
    world.submit(*apart, asks("large", "3g.20gb", minute=2))
    world.cycle()

    stops = [decision for decision in world.decisions if isinstance(decision, Stop)]
    assert [(stop.pod_id, stop.code, stop.moves_to) for stop in stops] == [("there", StopCode.MOVED, "n1")]
    world.settle()
    assert world.waiting() == set()


# --- why somebody waits


def test_a_no_names_the_slices_that_are_missing_on_each_node():
    outcome = decide(
        cut_node("n1"), cut_node("n2"), TEAM,
        running(asks("a", "2g.10gb"), "n1", "0:2g.10gb@4"), running(asks("b", "1g.5gb"), "n1", "0:1g.5gb@0"),
        running(asks("c", "7g.40gb"), "n2", "0:7g.40gb@0"),
        asks("job", "3g.20gb", "1g.5gb"),
    )  # fmt: skip

    (explain,) = [decision for decision in outcome.decisions if decision.job_id == "job"]
    assert explain.text == (
        "needs 1 MIG slice of 3g.20gb on lab; most free on one node is 0 MIG slices of 3g.20gb (n1)"
    )
    assert explain.advice == "wait for 1 MIG slice of 3g.20gb more on n1"
    assert explain.proof.nearest == (
        NodeShortfall("n1", "n1", "busy", (Shortage("mig", 1, 0, "3g.20gb"),)),
        NodeShortfall("n2", "n2", "busy", (Shortage("mig", 1, 0, "3g.20gb"), Shortage("mig", 1, 0, "1g.5gb"))),
    )


def test_slices_that_no_such_device_can_be_cut_into_never_fit():
    outcome = decide(cut_node("n1"), TEAM, asks("other", "3g.40gb"), asks("many", "3g.20gb", "3g.20gb", "1g.5gb"))

    assert outcome.texts == {
        "other": "never fits: needs 1 MIG slice of 3g.40gb on lab; most on any node is 0 MIG slices of 3g.40gb (n1)",
        "many": "never fits: needs 1 MIG slice of 1g.5gb on lab; most on any node is 0 MIG slices of 1g.5gb (n1)",
    }


def test_memory_that_waits_is_told_the_largest_slice_that_could_be_cut():
    outcome = decide(
        cut_node("n1"), TEAM, running(asks("a", "2g.10gb"), "n1", "0:2g.10gb@2"),
        running(asks("b", "1g.5gb"), "n1", "0:1g.5gb@4"), wait("job", "team", parts={"share_mib": 12_000}),
    )  # fmt: skip

    assert outcome.texts["job"] == (
        "needs 11.7 GiB of GPU memory on one device of lab; most free on one device is 9.5 GiB of GPU memory (n1)"
    )


def test_a_gang_is_told_for_how_many_of_its_slices_there_is_room():
    workers = gang("job", "team", 0, 4, 4)
    pods = tuple(replace(t, request=replace(t.request, mig=(("3g.20gb", 1),))) for t in workers.pods)

    outcome = decide(cut_node("n1", 2), TEAM, held("whole", "team", "n1", {0: 1}), replace(workers, pods=pods))

    assert outcome.texts["job"] == (
        "needs 4 pods of 1 MIG slice of 3g.20gb and 1 CPU and 1 GiB of memory at once on lab; there is capacity for 2"
    )


# --- whatever comes

SHAPES = [
    {"gpus": 1},
    {"gpus": 2},
    {"share_mib": 4000},
    {"share_mib": TEN_GB_MIB},
    {"share_mib": 15_000},
    *({"mig": ((profile.name, 1),)} for profile in A100_40.profiles),
    {"mig": (("1g.5gb", 2), ("3g.20gb", 1))},
]


def random_job(dice: random.Random, number: int) -> JobView:
    """Return a training or interactive job, or a gang, that asks for whole devices, slices, or memory."""
    count, is_firm = dice.choice([1, 1, 1, 2]), dice.random() < 0.2
    job = gang(
        f"job{number:04}", dice.choice(["a1", "b1"]), 0, count, dice.randint(1, count),
        priority=100 if is_firm else dice.choice([50, 75]), is_preemptible=not is_firm, rank=(number,),
    )  # fmt: skip
    parts = dice.choice(SHAPES)
    return replace(job, pods=tuple(replace(t, request=replace(t.request, **parts)) for t in job.pods))


def random_nodes(dice: random.Random) -> list[NodeView]:
    plain = [replace(node("n0", 2), device_mib=40_960)] if dice.random() < 0.3 else []
    return [*plain, *(cut_node(f"n{1 + i}", dice.choice([1, 2, 4])) for i in range(dice.randint(1, 2)))]


def check_slices(snapshot: Snapshot, states: frozenset[PodState]) -> None:
    """No memory slice of a device is used twice, and no device both as a whole and in parts.

    A device of which slices were promised may turn out to be another one of its node.
    """
    geometries = {row.id: row.geometry for row in snapshot.nodes}
    pods = [pod for job in snapshot.jobs for pod in job.pods if pod.state in states]
    cells: Counter[tuple[str | None, str, int]] = Counter()
    whole: Counter[str | None] = Counter()
    held: set[tuple[str | None, str]] = set()
    for pod in pods:
        geometry = geometries.get(pod.node_id)
        whole[pod.node_id] += pod.request.gpus
        held.update((pod.node_id, name) for name in pod.devices if pod.request.gpus)
        if geometry is not None and not pod.request.gpus:
            parts = [part for name in pod.devices if (part := mig.read_slice(name, geometry))]
            assert Counter(part.profile for part in parts) == Counter(pod.request.slices_on(geometry))
            cells.update(
                (pod.node_id, part.device, cell) for part in parts for cell in range(8) if part.bits >> cell & 1
            )
    assert all(count == 1 for count in cells.values())
    cut = {(node_id, device) for node_id, device, _ in cells}
    whole.update(node_id for node_id, _ in cut)
    assert all(whole[row.id] <= len(row.devices) for row in snapshot.nodes)
    assert PodState.RESERVED in states or not cut & held


@pytest.mark.parametrize("seed", range(10))
def test_nothing_overlaps_in_whole_cycles_and_a_kept_session_decides_the_same(seed):
    dice, policy = random.Random(seed), [NEARLINE, PARITY][seed % 2]
    nodes, queues = random_nodes(dice), [queue("a1", 2, age=2), queue("b1", 2, age=1)]
    world, kept = World(nodes, queues, policy), Session(Snapshot(nodes, queues, []), policy)
    known: dict[str, JobView] = {}
    for number in range(30):
        world.submit(random_job(dice, number))
        if world.running() and dice.random() < 0.5:
            world.delete(dice.choice(sorted(world.running())))
        jobs = {job.id: job for job in world.snapshot.jobs}
        kept.change([job for job in jobs.values() if known.get(job.id) != job], known.keys() - jobs.keys())
        known = jobs
        assert differences(kept) == []
        for action in ACTIONS.values():
            action(kept)
        moved = [(pod.id, pod.state, pod.devices) for pod in kept.moved_since(0)]
        world.cycle()
        check_slices(world.snapshot, UP)
        check_slices(world.snapshot, RUNNING)
        anew = Session(replace(world.snapshot, jobs=list(jobs.values())), policy)
        for action in ACTIONS.values():
            action(anew)
        assert moved == [(pod.id, pod.state, pod.devices) for pod in anew.moved_since(0)]


@pytest.mark.parametrize("seed", range(8))
def test_nothing_overlaps_and_nobody_is_forgotten_whatever_fails(seed):
    dice = random.Random(seed)
    world = Flaky(dice, random_nodes(dice), [queue("a1", 2, age=2), queue("b1", 2, age=1)])

    for number in range(100):
        if dice.random() < 0.5:
            world.submit(random_job(dice, number))
        end_some(world, dice)
        make_trouble(world, dice)
        before = world.snapshot
        world.cycle()
        check_slices(world.snapshot, OCCUPYING)
        told = apply(before, world.decisions)
        check_gangs(world, before, told)
        check_that_nobody_is_forgotten(world, told)
        check_starts(world, before)

    world.repair()
    world.loss = world.slowness = 0
    world.settle(at_most=30)
    check_slices(world.snapshot, UP)


MOVES = st.lists(st.tuples(st.sampled_from(["start", "plan", "evict", "back"]), st.integers(0, 9)), max_size=40)


@usual
@given(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=6), MOVES)
def test_moves_of_slices_are_counted_and_taken_back_exactly(shapes, moves):
    world = World([cut_node("n1"), cut_node("n2", 2)], [TEAM])
    jobs = [wait(f"job{i}", "team", parts=parts) for i, parts in enumerate(shapes)]
    world.submit(*jobs[::2])
    world.cycle()
    world.submit(*jobs[1::2])
    session = Session(world.snapshot, Policy())
    before_all = rooms_of(session)
    pods = [pod for job in session.jobs.values() for pod in job.pods]
    checkpoints = []
    for move, index in moves:
        pod = pods[index % len(pods)]
        checkpoints.append((session.checkpoint(), rooms_of(session)))
        if move == "back":
            checkpoint, before = checkpoints[index % len(checkpoints)]
            session.rollback(checkpoint)
            assert rooms_of(session) == before
            checkpoints = [entry for entry in checkpoints if entry[0] <= checkpoint]
        elif move == "evict" and pod.state in HOLDING:
            session.evict(pod)
        elif move != "evict" and (pod.state is PodState.PENDING or pod.was_evicted):
            give(session, pod, now=move == "start")
    session.rollback(0)
    assert rooms_of(session) == before_all


def give(session: Session, pod: Pod, *, now: bool) -> None:
    """Give a pod the best place on the best node, or promise it, if there is one."""
    node = session.best_node(pod)
    reserve_only = not now or pod.was_evicted
    picked = pick_devices(session, pod, node, reserve_only=reserve_only) if node is not None else None
    if node is not None and picked is not None:
        (session.start if picked[1] else session.reserve)(pod, node, picked[0])


def rooms_of(session: Session) -> list[dict[str, object]]:
    """Return a copy of all that is known of the capacity of each node."""
    names = set(NodeLedger.__slots__) - {"_changes", "view", "geometry", "kind"}
    return [{name: deepcopy(getattr(node, name)) for name in names} for node in session.nodes]
