"""What each node has free, what is about to become free there, and what was promised of that."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.engine import mig
from scheduler.engine.snapshot import MigStrategy, NodeView, Request, TaskState

ACTIVE = frozenset({TaskState.STARTING, TaskState.RUNNING})
"""The states of a task that runs, or will as soon as it has been told."""

HOLDING = ACTIVE | {TaskState.PLANNED}
"""The states whose room counts as the queue's."""

_OCCUPYING = ACTIVE | {TaskState.STUCK}

UNLIMITED = 1 << 40


@dataclass(slots=True)
class SharedDevice:
    """One GPU that its users share, or that is cut into slices: then users are counted on each memory slice."""

    key: str
    active: int = 0
    leaving: int = 0
    planned: int = 0
    active_mib: int = 0
    leaving_mib: int = 0
    planned_mib: int = 0

    def used_mib(self) -> int:
        """Return the memory that users hold or were promised."""
        return self.active_mib + self.leaving_mib + self.planned_mib

    def counts(self) -> tuple[int, int]:
        """Return what it adds to the whole devices that are idle and that are about to be.

        A device that all its users leave is about to be idle; one that only promises use was promised whole.
        """
        if self.active:
            return -1, 0
        if self.leaving:
            return -1, 0 if self.planned else 1
        return 0, -1 if self.planned else 0


class NodeLedger:
    """The room of one node. `idle_*` is free now; `coming_*` is what leaves, less what of it was promised.

    `changes` collects the index of the node each time its room changes.
    """

    __slots__ = (
        "_changes",
        "coming_cpu",
        "coming_gpus",
        "coming_memory",
        "coming_mig",
        "coming_tasks",
        "free",
        "geometry",
        "idle_cpu",
        "idle_gpus",
        "idle_memory",
        "idle_mig",
        "idle_tasks",
        "index",
        "kept",
        "kind",
        "known",
        "leaving",
        "shared",
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
        self.idle_tasks = UNLIMITED if view.max_tasks is None else view.max_tasks
        self.coming_cpu = self.coming_memory = self.coming_gpus = self.coming_tasks = 0
        self.idle_mig = dict(view.mig)
        self.coming_mig = dict.fromkeys(view.mig, 0)
        self.known = frozenset(str(key) for key in view.devices)
        self.free = set(self.known)
        self.whole: set[str] = set()
        self.leaving: set[str] = set()
        self.shared: dict[str, SharedDevice] = {}
        self.kept: tuple[int, int, int, int] | None = None

    # --- what fits

    def fits(self, request: Request, *, now: bool) -> bool:
        """Return whether a task fits on what is idle (`now`), or on that and what is about to be."""
        if now:
            cpu, memory, gpus, tasks = self.idle_cpu, self.idle_memory, self.idle_gpus, self.idle_tasks
        else:
            cpu, memory = self.idle_cpu + self.coming_cpu, self.idle_memory + self.coming_memory
            gpus, tasks = self.idle_gpus + self.coming_gpus, self.idle_tasks + self.coming_tasks
        if request.pool and request.pool != self.view.pool:
            return False
        if request.node_labels is not None and not self.view.bears(request.node_labels):
            return False
        if tasks < 1 or request.cpu_millicores > cpu or request.memory_bytes > memory or request.gpus > gpus:
            return False
        return not (request.share_milli or request.share_mib or request.mig) or self._fits_parts(request, now=now)

    def _fits_parts(self, request: Request, *, now: bool) -> bool:
        if self.geometry is not None:
            profiles = request.slices_on(self.geometry)
            return profiles is not None and mig.fits(profiles, [opening.taken for opening in self.openings(now=now)])
        if request.mig:
            return all(
                self.idle_mig.get(profile, 0) + (0 if now else self.coming_mig.get(profile, 0)) >= count
                for profile, count in request.mig
            )
        has_mig = self.view.mig_strategy is not MigStrategy.OFF
        return not has_mig and len(self.share_choices(request, now=now)) >= request.devices

    def share_choices(self, request: Request, *, now: bool) -> list[SharedDevice]:
        """Return the devices on which a share fits: those in shared use, then as many whole ones as are free."""
        needed = self.share_mib(request)
        if needed > self.view.device_mib:
            return []
        shared = [
            device
            for _, device in sorted(self.shared.items())
            if (not now or device.key not in self.whole) and self._has_room(device, needed, now=now)
        ]
        whole = self.idle_gpus if now else self.idle_gpus + self.coming_gpus
        return shared + self._whole(whole, now=now) if whole > 0 else shared

    def share_mib(self, request: Request) -> int:
        """Return the memory that a share takes of each device here."""
        return request.share_mib or self.view.device_mib * request.share_milli // 1000

    def has_shared_room(self, request: Request) -> bool:
        """Return whether a share, or the slices asked for, fit on devices that are in such use already."""
        if self.geometry is not None:
            profiles = request.slices_on(self.geometry) or ()
            return mig.fits(profiles, [opening.taken for opening in self.openings(now=False) if opening.taken])
        needed = self.share_mib(request)
        return sum(self._has_room(device, needed, now=False) for device in self.shared.values()) >= request.devices

    def _has_room(self, device: SharedDevice, needed: int, *, now: bool) -> bool:
        used = device.active_mib + device.planned_mib
        if now:
            return device.active > 0 and used + device.leaving_mib + needed <= self.view.device_mib
        return device.active + device.planned > 0 and used + needed <= self.view.device_mib

    def _whole(self, count: int, *, now: bool) -> list[SharedDevice]:
        """Return devices that nobody shares yet, as they would begin to be shared."""
        keys = sorted(key for key in self.free if key not in self.shared)
        if not now:
            keys += sorted(key for key in self.leaving if key not in self.shared)
        chosen = [SharedDevice(key) for key in keys[:count]]
        if not now and len(chosen) < count:
            chosen += [d for _, d in sorted(self.shared.items()) if d.leaving and not d.active and not d.planned]
        return chosen[:count]

    def openings(self, *, now: bool, kept: int = 0) -> list[mig.Opening]:
        """Return the devices to cut slices from: those that are cut already, then as many whole ones as are free.

        `kept` more of them count as free, though they are kept for somebody.
        """
        used: list[mig.Opening] = []
        left: list[mig.Opening] = []
        for key, device in sorted(self.shared.items()):
            if now and key in self.whole:
                continue
            users = device.active + device.planned + (device.leaving if now else 0)
            opening = mig.Opening(key, mig.taken_by(users), mig.taken_by(device.leaving))
            (used if device.active or device.planned else left).append(opening)
        whole = [mig.Opening(key, 0, 0) for key in sorted(self.free) if key not in self.shared]
        if now:
            whole = whole[: max(0, self.idle_gpus)]
        else:
            whole += [mig.Opening(key, 0, -1) for key in sorted(self.leaving) if key not in self.shared]
        return used + (whole + left)[: max(0, self.idle_gpus + self.coming_gpus + kept)]

    def offers(self, devices: tuple[str, ...], request: Request) -> bool:
        """Return whether a request that is served by parts of devices can be promised just these."""
        if self.geometry is None:
            return {device.key for device in self.share_choices(request, now=False)} >= set(devices)
        taken = {opening.device: opening.taken for opening in self.openings(now=False)}
        parts = [mig.read_slice(name, self.geometry) for name in devices]
        return all(part is not None and not taken.get(part.device, -1) & part.bits for part in parts)

    def is_overfull(self, name: str) -> bool:
        """Return whether more use a device, or were promised it, than it has room for; or a slice, if it is cut."""
        part = mig.read_slice(name, self.geometry) if self.geometry is not None else None
        device = self.shared.get(part.device if part is not None else name)
        if device is None:
            return False
        if part is None:
            return device.active_mib + device.planned_mib > self.view.device_mib
        return mig.is_crowded(device.active + device.planned, part.bits)

    def free_milli(self) -> int:
        """Return the thousandths of devices that are idle or about to be, parts of shared ones included."""
        free = 1000 * (self.idle_gpus + self.coming_gpus)
        if self.shared:
            whole = self.view.device_mib
            for device in self.shared.values():
                if device.active or (device.planned and self.geometry is not None):
                    free += 1000 * max(0, whole - device.active_mib - device.planned_mib) // whole
        return free

    def pick_whole(self, count: int) -> tuple[str, ...]:
        """Return the first whole devices that nobody uses, those not promised first."""
        if not self.shared:
            return tuple(sorted(self.free)[:count])
        return tuple(sorted(self.free, key=lambda key: (key in self.shared, key))[:count])

    # --- what changes

    def keep(self) -> None:
        """Promise all room that is free or about to be to somebody who is to come, so that nobody new gets in."""
        self.kept = (
            max(0, self.idle_cpu + self.coming_cpu),
            max(0, self.idle_memory + self.coming_memory),
            max(0, self.idle_gpus + self.coming_gpus),
            max(0, self.idle_tasks + self.coming_tasks),
        )
        self._add_coming(self.kept, -1)

    def let_go(self) -> None:
        """Undo `keep`."""
        if self.kept is not None:
            self._add_coming(self.kept, 1)
            self.kept = None

    def _add_coming(self, room: tuple[int, int, int, int], sign: int) -> None:
        self._changes.append(self.index)
        self.coming_cpu += sign * room[0]
        self.coming_memory += sign * room[1]
        self.coming_gpus += sign * room[2]
        self.coming_tasks += sign * room[3]

    def count(self, request: Request, state: TaskState, devices: tuple[str, ...], sign: int) -> None:
        """Add (or, with sign -1, take out) what one task in this state means for the room of the node."""
        if state in _OCCUPYING:
            idle, coming = -sign, 0
        elif state is TaskState.LEAVING:
            idle, coming = -sign, sign
        elif state is TaskState.PLANNED:
            idle, coming = 0, -sign
        else:
            return
        self._changes.append(self.index)
        if idle:
            self.idle_cpu += idle * request.cpu_millicores
            self.idle_memory += idle * request.memory_bytes
            self.idle_tasks += idle
        if coming:
            self.coming_cpu += coming * request.cpu_millicores
            self.coming_memory += coming * request.memory_bytes
            self.coming_tasks += coming
        if devices:
            self._count_devices(request, state, devices, sign)
        elif request.gpus and state is TaskState.PLANNED:
            self.coming_gpus -= sign * request.gpus
        if request.mig and self.geometry is None:
            for profile, count in request.mig:
                self.idle_mig[profile] = self.idle_mig.get(profile, 0) + idle * count
                self.coming_mig[profile] = self.coming_mig.get(profile, 0) + coming * count

    def _count_devices(self, request: Request, state: TaskState, devices: Iterable[str], sign: int) -> None:
        if not request.gpus:
            self._count_parts(request, state, devices, sign)
            return
        known = [
            key for key in devices if key in self.known
        ]  # A device that the node no longer reports is passed over.
        is_leaving = state is TaskState.LEAVING
        self.idle_gpus -= sign * len(known)
        self.coming_gpus += sign * len(known) if is_leaving else 0
        self._hold_whole(known, is_leaving=is_leaving, sign=sign)

    def _hold_whole(self, devices: Sequence[str], *, is_leaving: bool, sign: int) -> None:
        if sign > 0:
            self.whole.update(devices)
            self.free.difference_update(devices)
            if is_leaving:
                self.leaving.update(devices)
        else:
            self.whole.difference_update(devices)
            self.free.update(devices)
            if is_leaving:
                self.leaving.difference_update(devices)

    def _count_parts(self, request: Request, state: TaskState, devices: Iterable[str], sign: int) -> None:
        geometry = self.geometry
        for name in devices:
            if geometry is None:
                self._count_part(name, 1, self.share_mib(request), state, sign)
            elif part := mig.read_slice(name, geometry):
                mib = self.view.device_mib * part.profile.size // geometry.slices
                self._count_part(part.device, mig.users_of(part.bits), mib, state, sign)
            else:  # It shares the device since before the node was set to be cut.
                self._count_part(name, mig.users_of(geometry.bits), self.share_mib(request), state, sign)

    def _count_part(self, key: str, users: int, mib: int, state: TaskState, sign: int) -> None:
        if key not in self.known:
            return
        device = self.shared.get(key)
        if device is None:
            device = self.shared[key] = SharedDevice(key)
        idle, coming = device.counts()
        if state is TaskState.LEAVING:
            device.leaving += sign * users
            device.leaving_mib += sign * mib
        elif state is TaskState.PLANNED:
            device.planned += sign * users
            device.planned_mib += sign * mib
        else:
            device.active += sign * users
            device.active_mib += sign * mib
        idle_after, coming_after = device.counts()
        self.idle_gpus += idle_after - idle
        self.coming_gpus += coming_after - coming
        if device.active or device.leaving:
            self.free.discard(key)
        else:
            if key not in self.whole:
                self.free.add(key)
            if not device.planned:
                del self.shared[key]
