"""Containers are asked which GPUs they see, soon after their start; what one prints without an end is cut."""

import itertools
import threading
from datetime import timedelta

import pytest

from compute.adapters.container_gpu_checks import ContainerGpuChecks
from compute.engine.ports import CommandOutput
from compute.engine.visible_gpus import SeenGpu, VisibleGpus
from core import clock

ANSWER = CommandOutput(b"table\n0, GPU-a, 1, Disabled\nend\n")
VISIBLE = VisibleGpus((SeenGpu("GPU-a", 2**20),))


@pytest.fixture
def ask():
    """Ask a container, and return what tells its answer once there is one. With a gate it answers when that opens."""
    checks = ContainerGpuChecks()

    def ask(container, printed, *, job="", started_at=None, gate=None):
        def run():
            if gate is not None:
                is_asked.set()
                assert gate.wait(600)
            return iter(printed)

        is_asked = threading.Event()
        checks.check(container, job or container, started_at or clock.now(), run)
        assert gate is None or is_asked.wait(600)
        threads = [thread for thread in threading.enumerate() if thread.name == f"check GPUs of {container}"]

        def find():
            for thread in threads:
                thread.join()
            return checks.find(container)

        return find

    return ask


def print_once(gate, *pieces):
    """Print these, and once the gate is open what tells the answer."""
    yield from pieces
    assert gate.wait(600)
    yield ANSWER


@pytest.mark.parametrize("is_error", [True, False])
def test_what_a_container_prints_without_an_end_is_cut(ask, is_error):
    pieces = (CommandOutput(b"x" * 1024, is_error=is_error) for _ in range(10_000))

    assert ask("endless", itertools.chain(pieces, [ANSWER]))() is None
    assert len(list(pieces)) > 9_000


def test_a_container_whose_turn_comes_late_is_not_asked_any_more(ask):
    gate = threading.Event()
    with clock.frozen_at(clock.now()) as move_to:
        started_at = clock.now()
        slow = [ask(f"slow {number}", [ANSWER], gate=gate) for number in range(8)]
        late = ask("late", [ANSWER], started_at=started_at - timedelta(seconds=30))
        move_to(started_at + timedelta(seconds=40))
        gate.set()

        assert [find() for find in (*slow, late)] == [*[VISIBLE] * 8, None]


def test_no_job_waits_for_a_gang_whose_containers_do_not_answer(ask):
    gate = threading.Event()
    gang = [ask(f"gang {rank}", print_once(gate), job="gang") for rank in range(10)]

    assert ask("other", [ANSWER])() == VISIBLE

    gate.set()
    assert [find() for find in gang] == [VISIBLE] * 10


def test_those_that_are_silent_are_waited_for_beside_the_next_ones(ask):
    gate = threading.Event()
    silent = [ask(f"silent {number}", print_once(gate, CommandOutput())) for number in range(10)]

    assert ask("other", [ANSWER])() == VISIBLE

    gate.set()
    assert [find() for find in silent] == [VISIBLE] * 10
