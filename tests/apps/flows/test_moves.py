"""Instances of a step that wait move together to what becomes free elsewhere: all that it is enough for, and no more."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from accounts.models import Project
from accounts.permissions import Actor
from compute.engine.ports import GpuFacts, NodeFacts
from compute.selectors import places
from compute.workers import forecasts
from core import clock
from flows.models import Attempt, Run, Step
from tests.apps.flows.test_own_sizes import FLOW, GIB, START, attach
from tests.factories.flows import World, newest_attempt


class Play:
    """Simulated resources whose nodes have as many cores and as much memory for each GPU, and a clock."""

    def __init__(self, world: World, actor: Actor, project: Project, root: Path, move: Callable[..., None]) -> None:
        self.world, self.actor, self.project, self.root, self.move = world, actor, project, root, move

    def attach(self, name: str, *gpus: int) -> None:
        """Attach a resource whose nodes have so many GPUs."""
        attach(self.world, self.root, name, *(_node(f"{name}-{number}", count) for number, count in enumerate(gpus)))

    def start(self, gpus: int, more: str = "", *, count: int = 1) -> Run:
        """Start a run of a step for so many GPUs of which there are so many instances."""
        text = FLOW.format(gpus=gpus) + more + f"    grid: {{seed: {list(range(count))}}}\n"
        return self.world.start(self.actor, self.project, text)

    def hold(self, resource: str, gpus: int, seconds: float = 3600) -> str:
        """Let another run take GPUs of a resource for so long, and return the name of its job."""
        text = FLOW.format(gpus=gpus).replace("600", str(seconds)) + f"    resource: {resource}\n"
        run = self.world.start(self.actor, self.project, text)
        self.world.turn()
        self.world.turn()
        return newest_attempt(run, "train").job_name

    def release(self, name: str) -> None:
        self.world.driver_of(name).finish(name)

    def at(self, seconds: float) -> None:
        """Forecast at a moment, and let what follows from that happen once."""
        self.move(START + timedelta(seconds=seconds))
        self.world.turn()
        forecasts.forecast_all()
        self.move(START + timedelta(seconds=seconds + 3))
        self.world.turn()
        self.world.turn()


def _node(name: str, gpus: int) -> NodeFacts:
    devices = tuple(GpuFacts(index, f"{name}-{index}", "GPU", 32 * GIB) for index in range(gpus))
    return NodeFacts(name, 8000 * gpus, 64 * GIB * gpus, devices)


@pytest.fixture
def play(world: World, member, project, tmp_path):
    with clock.frozen_at(START) as move:
        yield Play(world, member, project, tmp_path, move)


def where(run: Run) -> dict[str, list[int]]:
    """Return by state and resource the indexes of the instances whose newest attempts are so."""
    found: dict[str, list[int]] = {}
    for attempt in Attempt.objects.filter(run=run, is_live=True).select_related("step").order_by("step__index"):
        found.setdefault(f"{attempt.state} {attempt.template.split('.')[0]}", []).append(attempt.step.index)
    return found


def count_moves(run: Run) -> int:
    return Attempt.objects.filter(run=run, state="superseded").count()


@pytest.mark.parametrize(
    ("count", "gpus", "nodes"),
    [(8, 1, (8,)), (8, 1, (3,)), (3, 1, (8,)), (5, 2, (3, 4)), (4, 2, (1, 1))],
    ids=["all", "some", "few", "pairs", "none"],
)
def test_as_many_as_fit_move_in_one_pass_and_none_more(play: Play, count: int, gpus: int, nodes: tuple[int, ...]):
    fitting = min(count, sum(size // gpus for size in nodes))
    play.attach("east", gpus)
    play.attach("west", *nodes, gpus)
    holders = [play.hold("west", size) for size in (*nodes, gpus)]
    play.hold("east", gpus)
    run = play.start(gpus, count=count)
    play.at(10)
    assert where(run) == {"queued east": list(range(count))}

    for name in holders[:-1]:
        play.release(name)
    play.at(20)

    moved = {"running west": list(range(fitting))} if fitting else {}
    left = {"queued east": list(range(fitting, count))} if fitting < count else {}
    assert (where(run), count_moves(run)) == (moved | left, fitting)
    play.at(30)
    assert (where(run), count_moves(run)) == (moved | left, fitting)


def test_steps_of_other_sizes_and_other_runs_are_given_none_of_it_twice(play: Play):
    play.attach("east", 2)
    play.attach("west", 7, 2)
    freed, _ = (play.hold("west", gpus) for gpus in (7, 2))
    play.hold("east", 2)
    look = FLOW.format(gpus=1).replace("train", "look").partition("steps:\n")[2]
    runs = [play.start(2, f"    grid: {{x: [0, 1]}}\n{look}", count=2) for _ in range(2)]
    play.at(10)
    assert [where(run) for run in runs] == [{"queued east": [0, 0, 1, 1]}] * 2

    play.release(freed)
    play.at(20)

    running = Attempt.objects.filter(run__in=runs, state="running").values_list("job__gpu_milli", flat=True)
    assert sum(running) == 7000
    assert not Attempt.objects.filter(run__in=runs, state="queued", template__startswith="west").exists()


def test_what_others_hold_or_wait_for_there_is_left_to_them(play: Play):
    play.attach("east", 1)
    play.attach("west", 6, 2)
    freed, _ = (play.hold("west", gpus) for gpus in (6, 2))
    play.hold("east", 1)
    first = play.start(2, "    resource: west\n", count=2)
    run = play.start(1, count=4)
    play.at(10)

    play.release(freed)
    play.at(20)

    assert where(first) == {"running west": [0, 1]}
    assert where(run) == {"running west": [0, 1], "queued east": [2, 3]}


def test_each_that_stays_is_told_when_it_would_start_elsewhere_behind_the_others(play: Play):
    play.attach("east", 1)
    play.attach("west", 2, 2)
    freed, _ = (play.hold("west", 2, seconds) for seconds in (90_000, 5000))
    play.hold("east", 1, 90_000)
    run = play.start(1, count=6)
    play.at(5)
    play.release(freed)
    play.at(10)
    assert where(run) == {"running west": [0, 1], "queued east": [2, 3, 4, 5]}

    play.at(20)

    attempts = Attempt.objects.filter(run=run, state="queued").order_by("step__index")
    told = places.find_stored_places(attempts.values_list("job_name", flat=True), made_after=START)
    elsewhere = [told[attempt.job_name][1] for attempt in attempts]
    assert {place.resource for place in elsewhere} == {"west"}
    assert [place.forecast.starts_in_s for place in elsewhere] == [(590,), (590,), (1190,), (1190,)]


def test_of_those_that_are_done_sooner_elsewhere_no_more_move_than_gain_by_it_and_none_moves_back(play: Play):
    play.attach("east", 1)
    play.attach("west", 1)
    freed = play.hold("west", 1, 90_000)
    play.hold("east", 1, 600)
    run = play.start(1, "    fallback: soonest\n", count=4)
    play.at(10)
    assert where(run) == {"queued east": [0, 1, 2, 3]}

    play.release(freed)
    play.at(20)

    assert where(run) == {"queued east": [0, 1], "running west": [2], "queued west": [3]}
    tries = Step.objects.filter(run=run, index__gt=1).order_by("index").values_list("tried", flat=True)
    assert [tried["why"] for (tried,) in tries] == [
        "is forecast to be done with it 29 min 37 s later than west.1-gpu",
        "is forecast to be done with it 29 min 40 s later than west.1-gpu",
    ]
    play.at(30)
    play.at(40)
    assert count_moves(run) == 2
