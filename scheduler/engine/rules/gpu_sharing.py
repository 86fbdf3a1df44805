"""Devices: whole ones for those who ask for whole ones, and sharing that keeps whole devices free for them."""

from collections.abc import Mapping

from scheduler.engine.resources import ONE_GPU, is_fraction


def find_shared(free: Mapping[int, int], milli: int) -> int | None:
    """Return the fullest device in use on which a fraction still fits; of equals the one with the lowest index."""
    fitting = [(room, index) for index, room in free.items() if milli <= room < ONE_GPU]
    return min(fitting)[1] if fitting else None


def count_whole(free: Mapping[int, int]) -> int:
    """Return how many devices nobody uses."""
    return sum(room == ONE_GPU for room in free.values())


def choose_devices(free: Mapping[int, int], milli: int) -> tuple[tuple[int, int], ...] | None:
    """Return which devices serve a request, with the thousandths taken of each; None when there is no room.

    `free` maps the index of each device of the node to its free thousandths.
    """
    whole = sorted(index for index, room in free.items() if room == ONE_GPU)
    if is_fraction(milli):
        index = find_shared(free, milli)
        index = whole[0] if index is None and whole else index
        return None if index is None else ((index, milli),)
    count = milli // ONE_GPU
    return tuple((index, ONE_GPU) for index in whole[:count]) if count <= len(whole) else None
