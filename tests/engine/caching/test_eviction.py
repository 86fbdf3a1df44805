"""Which copies leave a site: never those in use, never one that would not help, never more than needed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.engine import eviction
from datasets.engine.eviction import Copy, evicts_at, plan_idle_eviction, plan_space

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def copy(id_, size=10, *, hours=1.0, charged=None, **more):
    more.setdefault("idle_days", 1)
    return Copy(
        id=id_,
        label=f"team-a/x@{id_}",
        size_bytes=size,
        charged_bytes=size if charged is None else charged,
        last_used_at=NOW - timedelta(hours=hours),
        **more,
    )


# --- idleness


def test_a_copy_leaves_one_day_after_its_last_use():
    assert plan_idle_eviction([copy("a", hours=23.9), copy("b", hours=24), copy("c", hours=30)], now=NOW) == ["c", "b"]


def test_idle_days_of_zero_mean_never():
    assert evicts_at(copy("a", hours=9999, idle_days=0)) is None
    assert plan_idle_eviction([copy("a", hours=9999, idle_days=0)], now=NOW) == []


@pytest.mark.parametrize("kept", [{"is_pinned": True}, {"users": ("job 7",)}, {"is_unfinished": True}])
def test_what_is_pinned_or_in_use_or_being_cached_has_no_time_of_eviction(kept):
    assert evicts_at(copy("a", hours=99, **kept)) is None


def test_the_plan_says_when_each_goes():
    assert evicts_at(copy("a", hours=0, idle_days=0.5)) == NOW + timedelta(hours=12)


# --- space


def test_nothing_leaves_while_there_is_room():
    plan = plan_space([copy("a", 60)], capacity_bytes=100, need_bytes=40)

    assert (plan.victims, plan.free_bytes, plan.is_sufficient) == ((), 40, True)


def test_the_least_recently_used_leaves_first_and_only_as_much_as_needed():
    copies = [copy("new", 30, hours=1), copy("old", 30, hours=3), copy("mid", 30, hours=2)]

    assert plan_space(copies, capacity_bytes=100, need_bytes=40).victims == ("old",)
    assert plan_space(copies, capacity_bytes=100, need_bytes=41).victims == ("old", "mid")


def test_a_copy_whose_leaving_would_not_help_stays():
    copies = [copy("tiny", 1, hours=9), copy("big", 90, hours=2)]

    assert plan_space(copies, capacity_bytes=100, need_bytes=95).victims == ("big",)


def test_what_failed_leaves_before_what_is_good():
    copies = [copy("good", 50, hours=9), copy("failed", 50, hours=0, is_failed=True)]

    assert plan_space(copies, capacity_bytes=100, need_bytes=10).victims == ("failed",)


def test_what_may_be_read_next_leaves_last_for_what_is_needed_now_and_never_for_its_like():
    copies = [copy("ahead", 50, hours=9, users=("a step",), makes_way=True), copy("idle", 50, hours=0)]

    assert plan_space(copies, capacity_bytes=100, need_bytes=50).victims == ("idle",)
    assert plan_space(copies, capacity_bytes=100, need_bytes=60).victims == ("idle", "ahead")
    plan = plan_space(copies, capacity_bytes=100, need_bytes=60, is_ahead=True)
    assert (plan.victims, plan.missing_bytes, [each.id for each in plan.obstacles]) == ((), 10, ["ahead"])


def test_without_enough_to_evict_nothing_leaves_and_every_obstacle_is_named():
    copies = [
        copy("pinned", 40, is_pinned=True),
        copy("used", 30, users=("job train-1", "job train-2")),
        copy("busy", 20, is_unfinished=True),
        copy("idle", 5),
    ]

    plan = plan_space(copies, capacity_bytes=100, need_bytes=50)

    assert plan.victims == ()
    assert plan.missing_bytes == 40
    assert {(item.id, item.charged_bytes, item.reason) for item in plan.obstacles} == {
        ("pinned", 40, "pinned"),
        ("used", 30, "in use: job train-1, job train-2"),
        ("busy", 20, "being cached now"),
    }


def test_recent_use_is_no_obstacle_when_space_is_needed():
    assert plan_space([copy("a", 90, hours=0)], capacity_bytes=100, need_bytes=50).victims == ("a",)


def test_the_base_of_the_new_copy_is_kept():
    copies = [copy("base", 50, hours=9), copy("other", 50, hours=1)]

    assert plan_space(copies, capacity_bytes=100, need_bytes=10, keep={"base"}).victims == ("other",)


def test_space_that_leaving_copies_will_free_counts_as_free():
    plan = plan_space([copy("a", 90, is_leaving=True)], capacity_bytes=100, need_bytes=50)

    assert (plan.victims, plan.free_bytes) == ((), 100)


# --- shared files


def freed_by(copies, gone):
    """Return what a plan counts on once the copies in `gone` have been told to leave."""
    leaving = [replace(copy, is_leaving=copy.id in gone) for copy in copies]
    return plan_space(leaving, capacity_bytes=sum(c.charged_bytes for c in copies), need_bytes=0).free_bytes


def test_evicting_a_base_frees_only_what_its_heir_does_not_share():
    copies = [copy("a", 100), copy("b", 100, charged=1, base_id="a", shared_bytes=99)]

    assert freed_by(copies, {"a"}) == 1
    assert freed_by(copies, {"b"}) == 1
    assert freed_by(copies, {"a", "b"}) == 101


def test_siblings_of_an_evicted_base_are_known_to_share():
    copies = [
        copy("a", 100),
        copy("b", 100, charged=1, base_id="a", shared_bytes=99),
        copy("c", 100, charged=2, base_id="a", shared_bytes=98),
    ]

    # b and c together have at least 97 bytes in common through a, so at most 103 of 103 stay without it.
    assert freed_by(copies, {"a"}) == 0
    assert freed_by(copies, {"a", "b"}) == 3


@st.composite
def sites(draw):
    """Copies whose files are really known: each made from an earlier one, or from nothing."""
    trees: list[frozenset[int]] = []
    bases: list[int | None] = []
    copies = []
    on_disk: set[tuple[int, int]] = set()
    shared_as: list[dict[int, tuple[int, int]]] = []
    for number in range(draw(st.integers(0, 7))):
        base = draw(st.none() | st.integers(0, number - 1)) if number else None
        fresh = frozenset(draw(st.sets(st.integers(0, 40), max_size=12)))
        kept = frozenset(
            draw(st.sets(st.sampled_from(sorted(trees[base])))) if base is not None and trees[base] else ()
        )
        tree = kept | fresh
        common = tree & trees[base] if base is not None else frozenset()
        files = {item: (shared_as[base][item] if item in common else (number, item)) for item in tree}
        charged = len(tree) - len(common)
        trees.append(tree)
        bases.append(base)
        shared_as.append(files)
        on_disk |= set(files.values())
        flags = draw(st.sampled_from(["idle", "idle", "idle", "pinned", "used", "leaving", "failed"]))
        copies.append(
            Copy(
                id=f"c{number}",
                label=f"c{number}",
                size_bytes=len(tree),
                charged_bytes=charged,
                last_used_at=NOW - timedelta(hours=draw(st.integers(0, 50))),
                idle_days=draw(st.sampled_from([0, 1])),
                base_id=None if base is None else f"c{base}",
                shared_bytes=len(common),
                is_pinned=flags == "pinned",
                users=("job",) if flags == "used" else (),
                is_leaving=flags == "leaving",
                is_failed=flags == "failed",
            )
        )
    return copies, [set(files.values()) for files in shared_as]


def used_without(copies, files, gone):
    return len(set().union(*(f for c, f in zip(copies, files, strict=True) if c.id not in gone)))


@given(sites(), st.data())
def test_no_more_is_promised_than_the_departure_really_frees(site, data):
    copies, files = site
    gone = data.draw(st.sets(st.sampled_from([c.id for c in copies]))) if copies else set()

    assert freed_by(copies, gone) <= used_without(copies, files, set()) - used_without(copies, files, gone)


@given(sites(), st.integers(0, 80), st.integers(0, 80))
def test_a_plan_frees_enough_or_evicts_nothing_and_explains(site, capacity, need):
    copies, files = site

    plan = plan_space(copies, capacity_bytes=capacity, need_bytes=need)

    by_id = {c.id: c for c in copies}
    leaving = {c.id for c in copies if c.is_leaving}
    assert all(eviction.find_obstacle(by_id[id_]) is None and not by_id[id_].is_leaving for id_ in plan.victims)
    if plan.is_sufficient:
        assert used_without(copies, files, leaving.union(plan.victims)) + need <= capacity
        for spared in plan.victims:
            rest = leaving.union(plan.victims) - {spared}
            assert capacity - sum(c.charged_bytes for c in copies) + freed_by(copies, rest) < need
    else:
        assert plan.victims == ()
        stuck = {c.id for c in copies if not c.is_leaving and eviction.find_obstacle(c)}
        assert {item.id for item in plan.obstacles} == stuck


@given(sites(), st.integers(0, 80), st.integers(0, 80))
def test_victims_leave_in_the_order_of_their_last_use(site, capacity, need):
    copies, _ = site
    by_id = {c.id: c for c in copies}

    turns = [
        (not by_id[v].is_failed, by_id[v].last_used_at)
        for v in plan_space(copies, capacity_bytes=capacity, need_bytes=need).victims
    ]

    assert turns == sorted(turns)


# --- volumes


def test_a_volume_more_is_made_possible_by_the_least_recently_used():
    copies = [copy("new", hours=1), copy("old", hours=3), copy("mid", hours=2)]

    def victims(max_volumes):
        return plan_space(copies, capacity_bytes=100, need_bytes=10, max_volumes=max_volumes, need_volumes=1).victims

    assert (victims(4), victims(3), victims(2)) == ((), ("old",), ("old", "mid"))


def test_bytes_and_volumes_are_needed_together():
    copies = [copy("tiny", 1, hours=9), copy("big", 90, hours=2)]

    plan = plan_space(copies, capacity_bytes=100, need_bytes=50, max_volumes=2, need_volumes=1)

    assert plan.victims == ("big",)


def test_what_has_its_volume_already_needs_none_however_many_there_are():
    assert plan_space([copy("a"), copy("b")], capacity_bytes=100, need_bytes=10, max_volumes=1).is_sufficient


def test_a_volume_that_leaves_counts_as_free_and_one_that_its_clone_keeps_does_not():
    base = copy("base", is_leaving=True)
    clone = copy("clone", base_id="base", shared_bytes=5, clone_of="base")

    def plan(*copies):
        return plan_space(copies, capacity_bytes=100, need_bytes=10, max_volumes=2, need_volumes=1)

    assert plan(base, copy("other")).victims == ()
    assert plan(base, clone).victims == ("clone",)
    in_use = plan(base, replace(clone, users=("job 7",)))
    assert (in_use.missing_volumes, in_use.missing_bytes) == (1, 0)
    assert [(item.id, item.reason) for item in in_use.obstacles] == [
        ("base", "its volume stays as long as clones of it do"),
        ("clone", "in use: job 7"),
    ]


def test_a_base_is_not_evicted_in_vain_for_its_volume():
    copies = [
        copy("base", hours=9),
        copy("clone", hours=8, base_id="base", clone_of="base"),
        copy("clone of clone", hours=1, base_id="clone", clone_of="clone", is_pinned=True),
        copy("alone", hours=2),
    ]

    plan = plan_space(copies, capacity_bytes=100, need_bytes=10, max_volumes=4, need_volumes=1)
    short = plan_space(copies, capacity_bytes=100, need_bytes=10, max_volumes=3, need_volumes=1)

    assert plan.victims == ("alone",)
    assert (short.victims, short.missing_volumes) == ((), 1)


# --- the same by plain counting


@st.composite
def described_sites(draw):
    """Copies as they describe themselves, whatever their files: with bases and origins that are there or not."""
    copies = []
    for number in range(draw(st.integers(1, 7))):
        base = draw(st.none() | st.integers(-1, number - 1))
        size = draw(st.integers(0, 20))
        copies.append(
            copy(
                f"c{number}",
                size,
                hours=draw(st.integers(0, 9)),
                charged=draw(st.integers(0, 20)),
                base_id=None if base is None else f"c{base}",
                shared_bytes=draw(st.integers(0, min(size, copies[base].size_bytes))) if base in range(number) else 5,
                clone_of=draw(st.sampled_from([None, f"c{base}", "c-1"])),
                is_pinned=draw(st.integers(0, 5)) == 0,
                users=draw(st.sampled_from([(), (), (), ("job",)])),
                makes_way=draw(st.booleans()),
                is_failed=draw(st.booleans()),
                is_leaving=draw(st.integers(0, 4)) == 0,
            )
        )
    return copies


def least_left(copies, gone):
    """Count what is left at most: some of those that left may be counted as there, if all is less then."""
    staying = {c.id for c in copies} - gone

    def count(there):
        return sum(c.size_bytes - (c.shared_bytes if c.base_id in there else 0) for c in copies if c.id in there)

    return min(count(staying.union(ghosts)) for n in range(len(gone) + 1) for ghosts in combinations(sorted(gone), n))


def volumes_left(copies, gone):
    volumes = {c.id for c in copies} - gone
    for c in reversed(copies):
        if c.id in volumes and c.clone_of in {other.id for other in copies}:
            volumes.add(c.clone_of)
    return volumes


@given(described_sites(), st.integers(0, 80), st.integers(0, 80), st.none() | st.integers(0, 8), st.data())
def test_a_plan_is_the_one_that_trying_each_copy_in_turn_gives(copies, capacity, need, max_volumes, data):
    keep = data.draw(st.sets(st.sampled_from([c.id for c in copies]), max_size=2))
    is_ahead = data.draw(st.booleans())
    charged = sum(c.charged_bytes for c in copies)
    leaving = {c.id for c in copies if c.is_leaving}

    def free(gone):
        return capacity - charged + (max(0, charged - least_left(copies, gone)) if gone else 0)

    def fits(gone):
        return free(gone) >= need and (max_volumes is None or len(volumes_left(copies, gone)) < max_volumes)

    turns = sorted(copies, key=lambda c: (c.makes_way, not c.is_failed, c.last_used_at, c.id))
    chosen = [
        c.id
        for c in turns
        if c.id not in leaving | keep and (not (c.is_pinned or c.users) or (c.makes_way and not is_ahead))
    ]
    while chosen and fits(leaving.union(chosen[:-1])):
        chosen.pop()
    is_possible = fits(leaving.union(chosen))
    for spared in reversed(chosen[:-1]):
        if is_possible and fits(leaving.union(chosen) - {spared}):
            chosen.remove(spared)

    plan = plan_space(
        copies,
        capacity_bytes=capacity,
        need_bytes=need,
        max_volumes=max_volumes,
        need_volumes=1,
        keep=keep,
        is_ahead=is_ahead,
    )

    gone = leaving.union(chosen)
    assert plan.is_sufficient == is_possible
    assert plan.victims == (tuple(chosen) if is_possible else ())
    assert plan.free_bytes == free(leaving)
    if is_possible:
        assert plan.freed_bytes == free(gone) - free(leaving)
    else:
        assert plan.missing_bytes == max(0, need - free(gone))
        assert plan.missing_volumes == (
            max(0, 1 + len(volumes_left(copies, gone)) - max_volumes) if max_volumes is not None else 0
        )


def test_a_plan_for_thousands_of_copies_looks_at_each_a_few_times():
    looks = 0

    class CountedCopy(Copy):
        def __getattribute__(self, name):
            nonlocal looks
            looks += name == "size_bytes"
            return super().__getattribute__(name)

    copies = [
        CountedCopy(f"c{number:04}", "x", 10, 10, NOW - timedelta(hours=9999 - number), 1, clone_of=None)
        for number in range(2000)
    ]

    plan = plan_space(copies, capacity_bytes=20_000, need_bytes=10, max_volumes=500, need_volumes=1)

    assert len(plan.victims) == 1501
    assert looks < 20 * len(copies)
