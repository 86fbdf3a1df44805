"""How GPUs of a model may be cut into slices (NVIDIA MIG), and where on them a slice is best cut.

A device has memory slices, numbered from 0. A slice of some profile takes several that lie together and may begin only
at certain ones; two slices of a device never overlap. Source: NVIDIA's MIG User Guide, "Supported MIG Profiles", and
what `nvidia-smi mig -lgip` and `-lgipp` print. Profiles with media engines (`+me`) are left out.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

from core.units import ONE_GPU

_FIELD = 8
_FULL = (1 << _FIELD) - 1
_BASE = 8


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """A kind of slice: how many memory slices it takes, and at which it may begin."""

    name: str
    size: int
    starts: tuple[int, ...]

    def bits(self, start: int) -> int:
        """Return the memory slices that it takes from a start on, a bit for each."""
        return (1 << self.size) - 1 << start


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """What GPUs of a model may be cut into, the smallest first. Each memory slice gives its user at least `slice_mib`.

    One object a model: two of them are equal only if they are the same.
    """

    model: str
    slices: int
    slice_mib: int
    profiles: tuple[Profile, ...]

    @property
    def bits(self) -> int:
        """All memory slices of a device, a bit for each."""
        return (1 << self.slices) - 1

    def find(self, name: str) -> Profile | None:
        """Return the profile of that name, with or without the prefix of a Kubernetes resource."""
        short = name.rpartition("mig-")[2]
        return next((profile for profile in self.profiles if profile.name == short), None)

    def smallest(self, mib: int) -> Profile | None:
        """Return the smallest profile with so much memory."""
        return next((profile for profile in self.profiles if profile.size * self.slice_mib >= mib), None)

    def charge_milli(self, profiles: Iterable[Profile]) -> int:
        """Return which part of a device slices are, in thousandths: their part of its memory slices.

        So what a device serves never counts for more than the device.
        """
        return sum(ONE_GPU * profile.size // self.slices for profile in profiles)


def _in_seven(model: str, slice_mib: int, gb: tuple[int, int, int, int]) -> Geometry:
    """Return how a GPU of seven compute and eight memory slices is cut; `gb` is what the profiles are named after."""
    profiles = (
        Profile(f"1g.{gb[0]}gb", 1, (0, 1, 2, 3, 4, 5, 6)),
        Profile(f"1g.{gb[1]}gb", 2, (0, 2, 4, 6)),
        Profile(f"2g.{gb[1]}gb", 2, (0, 2, 4)),
        Profile(f"3g.{gb[2]}gb", 4, (0, 4)),
        Profile(f"4g.{gb[2]}gb", 4, (0,)),
        Profile(f"7g.{gb[3]}gb", 8, (0,)),
    )
    return Geometry(model, 8, slice_mib, profiles)


A100_40 = _in_seven("A100", 4864, (5, 10, 20, 40))
A100_80 = _in_seven("A100", 9728, (10, 20, 40, 80))
H100_80 = _in_seven("H100", 9850, (10, 20, 40, 80))
H200_141 = _in_seven("H200", 16384, (18, 35, 71, 141))
A30 = Geometry(
    "A30", 4, 5949, (Profile("1g.6gb", 1, (0, 1, 2, 3)), Profile("2g.12gb", 2, (0, 2)), Profile("4g.24gb", 4, (0,)))
)
GEOMETRIES = (A30, A100_40, A100_80, H100_80, H200_141)


def find_geometry(model: str, device_mib: int) -> Geometry | None:
    """Return how a GPU may be cut of which a driver reports model and memory; None if it may not, or is not known.

    Models that share a name differ in memory: all slices fit into it, and not one more.
    """
    words = re.split(r"[ -]", model)
    for geometry in GEOMETRIES:
        spare_mib = device_mib - geometry.slices * geometry.slice_mib
        if geometry.model in words and 0 <= spare_mib < geometry.slice_mib:
            return geometry
    return None


Kind = int | Geometry
"""What devices are, for what counts against quotas: how much memory they have, or how they are cut as requests come."""


# --- the names of slices


class Slice(NamedTuple):
    """A slice of a device. Its name is what snapshots and decisions call it: `0:3g.20gb@4`."""

    device: str
    profile: Profile
    start: int

    @property
    def name(self) -> str:
        """The device, the profile, and the memory slice at which it begins."""
        return f"{self.device}:{self.profile.name}@{self.start}"

    @property
    def bits(self) -> int:
        """The memory slices that it takes, a bit for each."""
        return self.profile.bits(self.start)


def read_slice(name: str, geometry: Geometry) -> Slice | None:
    """Return the slice of that name; None if devices of this kind have no such slice."""
    device, _, rest = name.partition(":")
    profile_name, _, start = rest.partition("@")
    profile = geometry.find(profile_name)
    if profile is None or not start.isdigit() or int(start) not in profile.starts:
        return None
    return Slice(device, profile, int(start))


# --- the users of a device: one number that counts the users of each memory slice, exact both ways


def users_of(bits: int) -> int:
    """Return one user on each of these memory slices, to be added to or taken from the users of a device."""
    return sum(1 << _FIELD * index for index in range(bits.bit_length()) if bits >> index & 1)


@lru_cache(maxsize=4096)
def taken_by(users: int) -> int:
    """Return the memory slices that have a user."""
    return sum(1 << index for index in range(-(-users.bit_length() // _FIELD)) if users >> _FIELD * index & _FULL)


def is_crowded(users: int, bits: int) -> bool:
    """Return whether any of these memory slices has several users."""
    return any(users >> _FIELD * index & _FULL > 1 for index in range(bits.bit_length()) if bits >> index & 1)


# --- where slices go


class Opening(NamedTuple):
    """A device to cut slices from: its memory slices in use, and those whose users terminate; -1 is all."""

    device: str
    taken: int
    terminating: int


def fits(profiles: Sequence[Profile], taken: Iterable[int]) -> bool:
    """Return whether devices of which that is taken have capacity for all the slices together."""
    left = list(taken)
    return all(_take_least(profile, left) for profile in _hardest_first(profiles))


def count(profile: Profile, taken: Iterable[int]) -> int:
    """Return how many slices of a profile find capacity; those of one profile never overlap halfway."""
    return sum(not profile.bits(start) & bits for bits in taken for start in profile.starts)


def count_each(profiles: Sequence[Profile], taken: Iterable[int]) -> dict[Profile, int]:
    """Return how many slices of each profile find capacity once the harder to place of those asked for have theirs."""
    left, counts = list(taken), dict[Profile, int]()
    for profile in dict.fromkeys(_hardest_first(profiles)):
        counts[profile] = count(profile, left)
        for _ in range(profiles.count(profile)):
            _take_least(profile, left)
    return counts


def largest_mib(geometry: Geometry, count: int, taken: Sequence[int]) -> int:
    """Return the most memory that each of so many slices could have on devices of which that is taken."""
    sizes = [profile.size for profile in geometry.profiles if fits([profile] * count, taken)]
    return max(sizes, default=0) * geometry.slice_mib


def choose(geometry: Geometry, profiles: Sequence[Profile], openings: Sequence[Opening]) -> tuple[Slice, ...] | None:
    """Return where to cut slices so that most is left for what may still come; None where not all of them fit.

    First where nobody has to leave, then where the fewest and smallest other places are lost, above all those of the
    large profiles; of equals on the fullest device.
    """
    rest, left, chosen = _hardest_first(profiles), list(openings), list[Slice]()
    if not fits(rest, [opening.taken for opening in left]):
        return None
    while rest:
        profile = rest.pop(0)
        for _, index, start in _ranked(geometry, profile, left):
            device, taken, terminating = left[index]
            after = [*left[:index], Opening(device, taken | profile.bits(start), terminating), *left[index + 1 :]]
            if fits(rest, [opening.taken for opening in after]):
                break
        left = after
        chosen.append(Slice(device, profile, start))
    return tuple(chosen)


_Rank = tuple[tuple[int, int, int], int, int]


def _ranked(geometry: Geometry, profile: Profile, openings: Sequence[Opening]) -> list[_Rank]:
    ranked = []
    for index, (_, taken, terminating) in enumerate(openings):
        for start in profile.starts:
            bits = profile.bits(start)
            if not bits & taken:
                worth = _worth(geometry, taken)
                lost = worth - _worth(geometry, taken | bits)
                ranked.append((((bits & terminating).bit_count(), lost, worth), index, start))
    return sorted(ranked)


@cache
def _worth(geometry: Geometry, taken: int) -> int:
    """Return what the places left on a device are worth: any of a larger profile more than all of the smaller ones."""
    return sum(_BASE**rank * count(profile, [taken]) for rank, profile in enumerate(geometry.profiles))


def _hardest_first(profiles: Iterable[Profile]) -> list[Profile]:
    return sorted(profiles, key=lambda profile: (-profile.size, len(profile.starts), profile.name))


def _take_least(profile: Profile, left: list[int]) -> bool:
    """Take, on one of the devices, the place that is of least use to others: the last at which a slice may begin.

    Places of a size never overlap halfway, and whatever may begin at a late one may at an early one too. So where the
    hardest to place go first, this finds capacity for all slices whenever there is any.
    """
    for start in reversed(profile.starts):
        for index, taken in enumerate(left):
            if not taken & profile.bits(start):
                left[index] |= profile.bits(start)
                return True
    return False
