"""What each node has free, what is being released there, and what of that is reserved."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from core.units import ONE_GPU
from scheduler.engine import mig
from scheduler.engine.snapshot import MigStrategy, NodeView, PodState, Request

ACTIVE = frozenset({PodState.STARTING, PodState.RUNNING})
"""The states of a pod that runs, or runs as soon as this cycle is applied."""

HOLDING = ACTIVE | {PodState.RESERVED}
"""The states whose capacity counts as the queue's."""

_OCCUPYING = ACTIVE | {PodState.STUCK_TERMINATING}

UNLIMITED = 1 << 40
_key = attrgetter("key")


@dataclass(slots=True)
class SharedDevice:
    """One GPU that its users share, or that is cut into slices: then users are counted on each memory slice."""

    key: str
    active: int = 0
    terminating: int = 0
    reserved: int = 0
    active_mib: int = 0
    terminating_mib: int = 0
    reserved_mib: int = 0

    def used_mib(self) -> int:
        """Return the memory that users hold or have reserved; none where all of them terminate."""
        return self.active_mib + self.terminating_mib + self.reserved_mib if self.active or self.reserved else 0

    def counts(self) -> tuple[int, int]:
        """Return what it adds to the whole devices that are idle and that are about to be.

        A device of which all users terminate is about to be idle; one that is only reserved is reserved whole.
        """
        if self.active:
            return -1, 0
        if self.terminating:
            return -1, 0 if self.reserved else 1
        return 0, -1 if self.reserved else 0


class NodeLedger:
    """The capacity of one node. `idle_*` is free now; `releasing_*` is what terminating pods free, less reservations.

    `changes` collects the index of the node each time its capacity changes. `moving` counts the pods that terminate or
    have capacity reserved.
    """

    __slots__ = (
        "_changes",
        "free",
        "geometry",
        "idle_cpu",
        "idle_gpus",
        "idle_memory",
        "idle_mig",
        "idle_pods",
        "index",
        "kind",
        "known",
        "moving",
        "releasing_cpu",
        "releasing_gpus",
        "releasing_memory",
        "releasing_mig",
        "releasing_pods",
        "reserved_amounts",
        "shared",
        "terminating",
        "view",
        "whole",
    )

    def __init__(self, view: NodeView, index: int, changes: list[int]) -> None:
        self.view = view
        self.index = index
        self._changes = changes
        self.geometry = view.geometry if view.mig_strategy is MigStrategy.DYNAMIC else None
        self.kind: mig.Kind = self.geometry or view.device_mib
        self.idle_cpu, self.idle_memory, self.idle_gpus = view.cpu_millicores, view.memory_bytes, len(view.devices)
        self.idle_pods = UNLIMITED if view.max_pods is None else view.max_pods
        self.releasing_cpu = self.releasing_memory = self.releasing_gpus = self.releasing_pods = 0
        self.idle_mig = dict(view.mig)
        self.releasing_mig = dict.fromkeys(view.mig, 0)
        self.known = frozenset(str(key) for key in view.devices)
        self.free = set(self.known)
        self.whole: set[str] = set()
        self.terminating: set[str] = set()
        self.shared: dict[str, SharedDevice] = {}
        self.reserved_amounts: tuple[int, int, int, int] | None = None
        self.moving = 0

    # --- what fits

    @property
    def is_settled(self) -> bool:
        """Whether nothing is reserved or being released here, so that what fits soon fits now."""
        if self.moving or self.reserved_amounts is not None:
            return False
        return not self.shared or self.whole.isdisjoint(self.shared)

    def fits(self, request: Request, *, now: bool) -> bool:
        """Return whether a pod fits on what is idle (`now`), or on that and what is about to be."""
        if now:
            cpu, memory, gpus, pods = self.idle_cpu, self.idle_memory, self.idle_gpus, self.idle_pods
        else:
            cpu, memory = self.idle_cpu + self.releasing_cpu, self.idle_memory + self.releasing_memory
            gpus, pods = self.idle_gpus + self.releasing_gpus, self.idle_pods + self.releasing_pods
        if pods < 1 or request.cpu_millicores > cpu or request.memory_bytes > memory or request.gpus > gpus:
            return False
        if not self.view.serves(request):
            return False
        return not (request.share_milli or request.share_mib or request.mig) or self._fits_parts(request, now=now)

    def _fits_parts(self, request: Request, *, now: bool) -> bool:
        if self.geometry is not None:
            profiles = request.slices_on(self.geometry)
            return profiles is not None and mig.fits(profiles, [opening.taken for opening in self.openings(now=now)])
        if request.mig:
            return all(
                self.idle_mig.get(profile, 0) + (0 if now else self.releasing_mig.get(profile, 0)) >= count
                for profile, count in request.mig
            )
        if self.view.mig_strategy is not MigStrategy.OFF:
            return False
        if request.devices > 1:
            return len(self.share_choices(request, now=now)) >= request.devices
        needed = self.share_mib(request)
        return needed <= self.view.device_mib and (any(self.shares_for(needed, now=now)) or self.has_whole(now=now))

    def share_choices(self, request: Request, *, now: bool) -> list[SharedDevice]:
        """Return the devices on which a share fits: those in shared use, then as many whole ones as are free."""
        needed = self.share_mib(request)
        if needed > self.view.device_mib:
            return []
        shared = sorted(self.shares_for(needed, now=now), key=_key)
        whole = self.idle_gpus if now else self.idle_gpus + self.releasing_gpus
        return shared + self._whole(whole, now=now) if whole > 0 else shared

    def shares_for(self, needed_mib: int, *, now: bool) -> Iterator[SharedDevice]:
        """Return the devices in shared use that have so much memory free."""
        return (
            device
            for device in self.shared.values()
            if (not now or device.key not in self.whole) and self._fits_on(device, needed_mib, now=now)
        )

    def has_whole(self, *, now: bool) -> bool:
        """Return whether there is a whole device that shares may begin to use."""
        if self.idle_gpus + (0 if now else self.releasing_gpus) <= 0:
            return False
        if not self.shared and self.free:
            return True
        return bool(self._whole(1, now=now))

    def share_mib(self, request: Request) -> int:
        """Return the memory that a share takes of each device here."""
        return request.share_mib or self.view.device_mib * request.share_milli // ONE_GPU

    def fits_shared(self, request: Request) -> bool:
        """Return whether a share, or the slices asked for, fit on devices that are in such use already."""
        if self.geometry is not None:
            profiles = request.slices_on(self.geometry) or ()
            return mig.fits(profiles, [opening.taken for opening in self.openings(now=False) if opening.taken])
        needed = self.share_mib(request)
        return sum(self._fits_on(device, needed, now=False) for device in self.shared.values()) >= request.devices

    def _fits_on(self, device: SharedDevice, needed: int, *, now: bool) -> bool:
        used = device.active_mib + device.reserved_mib + (device.terminating_mib if now else 0)
        return device.active + device.reserved > 0 and used + needed <= self.view.device_mib

    def _whole(self, count: int, *, now: bool) -> list[SharedDevice]:
        """Return devices that nobody shares yet, as they would begin to be shared."""
        keys = sorted(key for key in self.free if key not in self.shared)
        if not now:
            keys += sorted(key for key in self.terminating if key not in self.shared)
        chosen = [SharedDevice(key) for key in keys[:count]]
        if not now and len(chosen) < count:
            chosen += [d for _, d in sorted(self.shared.items()) if d.terminating and not d.active and not d.reserved]
        return chosen[:count]

    def openings(self, *, now: bool, reserved_gpus: int = 0) -> list[mig.Opening]:
        """Return the devices to cut slices from: those that are cut already, then as many whole ones as are free.

        `reserved_gpus` more of them count as free, although they are reserved for a job.
        """
        used: list[mig.Opening] = []
        left: list[mig.Opening] = []
        for key, device in sorted(self.shared.items()):
            if now and key in self.whole:
                continue
            users = device.active + device.reserved + (device.terminating if now else 0)
            opening = mig.Opening(key, mig.taken_by(users), mig.taken_by(device.terminating))
            (used if device.active or device.reserved else left).append(opening)
        whole = [mig.Opening(key, 0, 0) for key in sorted(self.free) if key not in self.shared]
        if now:
            whole = whole[: max(0, self.idle_gpus)]
        else:
            whole += [mig.Opening(key, 0, -1) for key in sorted(self.terminating) if key not in self.shared]
        return used + (whole + left)[: max(0, self.idle_gpus + self.releasing_gpus + reserved_gpus)]

    def offers(self, devices: tuple[str, ...], request: Request) -> bool:
        """Return whether just these parts of devices can be reserved for a request."""
        if self.geometry is None:
            return {device.key for device in self.share_choices(request, now=False)} >= set(devices)
        taken = {opening.device: opening.taken for opening in self.openings(now=False)}
        parts = [mig.read_slice(name, self.geometry) for name in devices]
        return all(part is not None and not taken.get(part.device, -1) & part.bits for part in parts)

    def has_reserved_part(self, devices: Iterable[str]) -> bool:
        """Return whether a part of any of these whole devices is reserved."""
        return any(key in self.shared and self.shared[key].reserved for key in devices)

    def is_overfull(self, name: str) -> bool:
        """Return whether a device, or a slice of it, is used and reserved beyond its capacity."""
        part = mig.read_slice(name, self.geometry) if self.geometry is not None else None
        device = self.shared.get(part.device if part is not None else name)
        if device is None:
            return False
        if part is None:
            return device.active_mib + device.reserved_mib > self.view.device_mib
        return mig.is_crowded(device.active + device.reserved, part.bits)

    def free_milli(self) -> int:
        """Return the thousandths of devices that are idle or about to be, parts of shared ones included."""
        free = ONE_GPU * (self.idle_gpus + self.releasing_gpus)
        if self.shared:
            whole = self.view.device_mib
            for device in self.shared.values():
                if device.active or (device.reserved and self.geometry is not None):
                    free += ONE_GPU * max(0, whole - device.active_mib - device.reserved_mib) // whole
        return free

    def pick_whole(self, count: int) -> tuple[str, ...]:
        """Return the first whole devices that are unused, those without a reservation first."""
        if not self.shared:
            return tuple(sorted(self.free)[:count])
        return tuple(sorted(self.free, key=lambda key: (key in self.shared, key))[:count])

    # --- what changes

    def reserve(self) -> None:
        """Reserve all capacity that is free or about to be, so that no new pod is placed here."""
        self.reserved_amounts = (
            max(0, self.idle_cpu + self.releasing_cpu),
            max(0, self.idle_memory + self.releasing_memory),
            max(0, self.idle_gpus + self.releasing_gpus),
            max(0, self.idle_pods + self.releasing_pods),
        )
        self._add_releasing(self.reserved_amounts, -1)

    def release(self) -> None:
        """Undo `reserve`."""
        if self.reserved_amounts is not None:
            self._add_releasing(self.reserved_amounts, 1)
            self.reserved_amounts = None

    def _add_releasing(self, capacity: tuple[int, int, int, int], sign: int) -> None:
        self._changes.append(self.index)
        self.releasing_cpu += sign * capacity[0]
        self.releasing_memory += sign * capacity[1]
        self.releasing_gpus += sign * capacity[2]
        self.releasing_pods += sign * capacity[3]

    def count(self, request: Request, state: PodState, devices: tuple[str, ...], sign: int) -> None:
        """Add (or, with sign -1, take out) what one pod in this state means for the capacity of the node."""
        if state in _OCCUPYING:
            idle, coming = -sign, 0
        elif state is PodState.TERMINATING:
            idle, coming = -sign, sign
        elif state is PodState.RESERVED:
            idle, coming = 0, -sign
        else:
            return
        self._changes.append(self.index)
        if idle:
            self.idle_cpu += idle * request.cpu_millicores
            self.idle_memory += idle * request.memory_bytes
            self.idle_pods += idle
        if coming:
            self.moving += sign
            self.releasing_cpu += coming * request.cpu_millicores
            self.releasing_memory += coming * request.memory_bytes
            self.releasing_pods += coming
        if devices:
            self._count_devices(request, state, devices, sign)
        elif request.gpus and state is PodState.RESERVED:
            self.releasing_gpus -= sign * request.gpus
        if request.mig and self.geometry is None:
            for profile, count in request.mig:
                self.idle_mig[profile] = self.idle_mig.get(profile, 0) + idle * count
                self.releasing_mig[profile] = self.releasing_mig.get(profile, 0) + coming * count

    def _count_devices(self, request: Request, state: PodState, devices: Iterable[str], sign: int) -> None:
        if not request.gpus:
            self._count_parts(request, state, devices, sign)
            return
        known = [
            key for key in devices if key in self.known
        ]  # A device that the node no longer reports is passed over.
        is_terminating = state is PodState.TERMINATING
        self.idle_gpus -= sign * len(known)
        self.releasing_gpus += sign * len(known) if is_terminating else 0
        self._hold_whole(known, is_terminating=is_terminating, sign=sign)

    def _hold_whole(self, devices: Sequence[str], *, is_terminating: bool, sign: int) -> None:
        if sign > 0:
            self.whole.update(devices)
            self.free.difference_update(devices)
            if is_terminating:
                self.terminating.update(devices)
        else:
            self.whole.difference_update(devices)
            self.free.update(devices)
            if is_terminating:
                self.terminating.difference_update(devices)

    def _count_parts(self, request: Request, state: PodState, devices: Iterable[str], sign: int) -> None:
        geometry = self.geometry
        for name in devices:
            if geometry is None:
                self._count_part(name, 1, self.share_mib(request), state, sign)
            elif part := mig.read_slice(name, geometry):
                mib = self.view.device_mib * part.profile.size // geometry.slices
                self._count_part(part.device, mig.users_of(part.bits), mib, state, sign)
            else:  # It shares the device since before the node was set to be cut.
                self._count_part(name, mig.users_of(geometry.bits), self.share_mib(request), state, sign)

    def _count_part(self, key: str, users: int, mib: int, state: PodState, sign: int) -> None:
        if key not in self.known:
            return
        device = self.shared.get(key)
        if device is None:
            device = self.shared[key] = SharedDevice(key)
        idle, coming = device.counts()
        if state is PodState.TERMINATING:
            device.terminating += sign * users
            device.terminating_mib += sign * mib
        elif state is PodState.RESERVED:
            device.reserved += sign * users
            device.reserved_mib += sign * mib
        else:
            device.active += sign * users
            device.active_mib += sign * mib
        idle_after, coming_after = device.counts()
        self.idle_gpus += idle_after - idle
        self.releasing_gpus += coming_after - coming
        if device.active or device.terminating:
            self.free.discard(key)
        else:
            if key not in self.whole:
                self.free.add(key)
            if not device.reserved:
                del self.shared[key]
