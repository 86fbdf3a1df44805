"""The policy by which client and server try again."""

import pytest

from nearline.content.retry import Failure, RetryPolicy, Waiting


class Away(Exception):
    pass


class Broken(Exception):
    pass


class Stale(Exception):
    pass


KINDS = {Away: Failure.UNAVAILABLE, Broken: Failure.SERVER_ERROR, Stale: Failure.EXPIRED}


class Line:
    """Calls that fail as planned, then succeed; the waits between them, on a clock that only they move."""

    def __init__(self, *failures):
        self.failures = list(failures)
        self.calls = 0
        self.waits = []
        self.told = []

    def policy(self, **options):
        return RetryPolicy(
            lambda error: KINDS.get(type(error), Failure.PERMANENT),
            sleep=self.waits.append,
            jitter=lambda: 1.0,
            clock=lambda: sum(self.waits),
            on_wait=self.told.append,
            **options,
        )

    def call(self):
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def test_who_is_away_is_waited_for_with_growing_waits():
    line = Line(Away("no answer"), Away("no answer"), Away("refused"))

    assert line.policy().repeat(line.call) == "done"
    assert line.waits == [0.5, 1.0, 2.0]
    assert line.told == [
        Waiting("no answer", 0.0, 600.0),
        Waiting("no answer", 0.5, 600.0),
        Waiting("refused", 1.5, 600.0),
    ]
    assert line.told[2].left_s == 598.5


def test_waiting_ends_after_the_longest_time():
    line = Line(*[Away("no answer") for _ in range(1000)])

    with pytest.raises(Away):
        line.policy(max_elapsed_s=60.0).repeat(line.call)

    assert line.waits == [0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0]


def test_what_is_broken_is_tried_a_few_times():
    line = Line(*[Broken() for _ in range(1000)])

    with pytest.raises(Broken):
        line.policy(max_attempts=4).repeat(line.call)

    assert (line.calls, line.waits) == (4, [0.5, 1.0, 2.0])


def test_what_is_stale_is_made_again_at_once_but_not_for_ever():
    line = Line(*[Stale() for _ in range(1000)])

    with pytest.raises(Stale):
        line.policy(max_attempts=4).repeat(line.call)

    assert (line.calls, line.waits) == (4, [])


def test_a_long_absence_leaves_what_became_stale_its_attempts():
    line = Line(*[Away() for _ in range(30)], Stale())

    assert line.policy(max_attempts=2).repeat(line.call) == "done"


def test_what_cannot_succeed_is_not_repeated():
    line = Line(ValueError("no"))

    with pytest.raises(ValueError, match="no"):
        line.policy().repeat(line.call)

    assert (line.calls, line.waits) == (1, [])


def test_an_error_says_how_long_to_wait_up_to_the_longest_wait():
    soon, late = Away(), Away()
    soon.retry_after_s, late.retry_after_s = 3.0, 3600.0
    line = Line(soon, late)

    assert line.policy(max_delay_s=20.0).repeat(line.call) == "done"
    assert line.waits == [3.0, 20.0]


def test_waits_are_random():
    line = Line(Away(), Away())
    chances = [0.5, 0.25]
    policy = line.policy()

    assert RetryPolicy(policy.classify, sleep=line.waits.append, jitter=lambda: chances.pop(0)).repeat(line.call)
    assert line.waits == [0.25, 0.25]
