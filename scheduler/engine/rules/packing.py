"""What capacity is worth to the work still to come, and so what it costs to give it to the work at hand.

The prices are the duals of a linear program: given the mix of work and a little less capacity than it needs, what does
a device with r hundredths left still earn? They are worked out once for a mix (in a second, not in a cycle). A place
then costs the value that it takes from the capacity, and the devices that it leaves without cores or memory.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from core.units import ONE_GPU
from scheduler.engine.ledger import NodeLedger, SharedDevice
from scheduler.engine.node_table import Capacity, NodeTable, Where
from scheduler.engine.snapshot import CapacityPrices, NodeView, Request

PARTS = 100
"""Shares are priced in hundredths of a device."""

_LOAD = 1.05
_SOFTNESS = 0.004
_ROUNDS = 300
_FIRST_STEP, _LAST_STEP = 0.05, 0.0005
_FIRST_RENT = 0.05

_LEAST_DEVICES = 1e-9
_WEIGHT = 2.0
"""How dear a device is that lacks cores or memory, by what is expected: chosen in `benchmarks/README.md`."""
_HUNDREDTHS = np.arange(PARTS + 1.0)

Floats = npt.NDArray[np.float64]
_UNUSED = SharedDevice("")
Need = tuple[float, float]
"""So many cores, or so much memory, and the devices that they are asked for with."""


def price_capacity(mix: Iterable[tuple[Request, float]], nodes: Sequence[NodeView]) -> CapacityPrices | None:
    """Return what capacity is worth to work that comes in these proportions; None when none of it asks for devices.

    A pool is dearer by the share of its devices that will be asked for by work which may run nowhere else.
    """
    smallest_mib = min((node.device_mib for node in nodes if node.device_mib), default=PARTS)
    asked: defaultdict[int, float] = defaultdict(float)
    bound: defaultdict[str, float] = defaultdict(float)
    cores: list[Need] = []
    memory: list[Need] = []
    for request, weight in mix:
        size = _hundredths(request, smallest_mib)
        count = weight * (request.gpus or request.devices)
        if size == 0 or count <= 0:
            continue
        devices = count * size / PARTS
        asked[size] += count
        cores.append((weight * request.cpu_millicores, devices))
        memory.append((weight * request.memory_bytes, devices))
        if request.pool:
            bound[request.pool] += devices
    if not asked:
        return None
    capacity: defaultdict[str, int] = defaultdict(int)
    for node in nodes:
        capacity[node.pool] += len(node.devices)
    each = sum(devices for _, devices in cores) / max(1, sum(capacity.values()))
    cores_per_device, served_by_cores = _served_by(cores)
    memory_per_device, served_by_memory = _served_by(memory)
    return CapacityPrices(
        device=_value_by_capacity(asked),
        cores_per_device=cores_per_device,
        memory_per_device=memory_per_device,
        premiums={pool: amount / (capacity[pool] * each) for pool, amount in bound.items() if capacity[pool]},
        served_by_cores=served_by_cores,
        served_by_memory=served_by_memory,
    )


def cost(node: NodeLedger, request: Request, prices: CapacityPrices) -> float:
    """Return what a node loses by serving a request that fits there, in devices."""
    free = node.free_milli() / ONE_GPU
    cores, memory = node.idle_cpu + node.releasing_cpu, node.idle_memory + node.releasing_memory
    used, taken = _take(node, request, prices)
    before = _stranded(free, cores, memory, prices)
    after = _stranded(free - used, cores - request.cpu_millicores, memory - request.memory_bytes, prices)
    return taken * (1 + prices.premiums.get(node.view.pool, 0.0)) + after - before


def costs(  # noqa: PLR0917 (the parts of a question)
    table: NodeTable,
    request: Request,
    prices: CapacityPrices,
    at: Where,
    capacity: Capacity,
    needed_mib: npt.NDArray[np.int64] | None,
) -> Floats:
    """Return what nodes lose by serving a request, as `cost` of each: of use only where it fits.

    `capacity` is what they have free, and `needed_mib` what a share takes of one device of each node; None where no
    share is asked for.
    """
    free = capacity.free_milli / ONE_GPU
    used: Floats | float
    taken: Floats | float
    if needed_mib is None:
        used, taken = request.gpus, request.gpus * prices.device[PARTS]
    else:
        used, taken = _take_shares(table, prices, at, capacity, needed_mib)
    # Before and after in one go: that is most of what it costs to look at few nodes.
    cores = np.stack((capacity.cpu, capacity.cpu - request.cpu_millicores))
    memory = np.stack((capacity.memory, capacity.memory - request.memory_bytes))
    before, after = _stranded_each(np.stack((free, free - used)), cores, memory, prices)
    stranded: Floats = after - before
    dearness: Floats | float = 1 + table.premiums(prices.premiums)[at] if prices.premiums else 1.0
    return taken * dearness + stranded


def _take_shares(
    table: NodeTable, prices: CapacityPrices, at: Where, capacity: Capacity, needed_mib: npt.NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Return for each node the part of a device that a share uses, and the least value that it takes from one."""
    value = np.array(prices.device)
    mib = np.maximum(1, table.device_mib[at])
    rest = np.maximum(0, mib - needed_mib)
    taken = np.where(capacity.whole > 0, value[PARTS] - value[PARTS * rest // mib], np.inf)
    free, left = table.parts(at)
    of_devices = value[PARTS * left // mib] - value[PARTS * np.maximum(0, left - needed_mib) // mib]
    taken = np.minimum(taken, np.where(free >= needed_mib, of_devices, np.inf).min(axis=0, initial=np.inf))
    return needed_mib / mib, np.where(np.isfinite(taken), taken, 0.0)


def _stranded_each(
    devices: Floats, cores: npt.NDArray[np.int64], memory: npt.NDArray[np.int64], prices: CapacityPrices
) -> Floats:
    """Return for each node what `_stranded` does."""
    served: Floats | float = 1.0
    each_device = 1 / np.maximum(devices, _LEAST_DEVICES)
    for amount, each, served_by in (
        (cores, prices.cores_per_device, prices.served_by_cores),
        (memory, prices.memory_per_device, prices.served_by_memory),
    ):
        if each:
            served = np.minimum(served, np.interp(amount * each_device, *_table(each, served_by)))
    return _WEIGHT * devices * (1 - served)


@lru_cache(maxsize=8)
def _table(each: float, served_by: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Return amounts beside a device, and which part of the devices is served with them."""
    return _HUNDREDTHS * (each / PARTS), np.array(served_by)


def device_cost(node: NodeLedger, device: SharedDevice, needed_mib: int, prices: CapacityPrices) -> float:
    """Return the value that a share takes from a device."""
    whole = node.view.device_mib
    left = max(0, whole - device.used_mib())
    before, after = PARTS * left // whole, PARTS * max(0, left - needed_mib) // whole
    return prices.device[before] - prices.device[after]


def _take(node: NodeLedger, request: Request, prices: CapacityPrices) -> tuple[float, float]:
    """Return how many devices a request uses, and the value that it takes from them: slices by their size."""
    if node.geometry is not None and not request.gpus:
        part = request.charge_milli(node.geometry) / ONE_GPU
        return part, part * prices.device[PARTS]
    if request.is_shared:
        needed = node.share_mib(request)
        used = request.devices * needed / node.view.device_mib
        if request.devices > 1:
            choices = node.share_choices(request, now=False)
            return used, sum(sorted(device_cost(node, each, needed, prices) for each in choices)[: request.devices])
        costs = [device_cost(node, device, needed, prices) for device in node.shares_for(needed, now=False)]
        if node.has_whole(now=False):
            costs.append(device_cost(node, _UNUSED, needed, prices))
        return used, min(costs, default=0.0)
    return request.gpus, request.gpus * prices.device[PARTS]


def _stranded(devices: float, cores: float, memory: float, prices: CapacityPrices) -> float:
    """Return how many of the free devices will lack cores or memory if the usual work comes."""
    served = 1.0
    for amount, each, served_by in (
        (cores, prices.cores_per_device, prices.served_by_cores),
        (memory, prices.memory_per_device, prices.served_by_memory),
    ):
        if each:
            hundredths = PARTS * amount / (each * max(devices, _LEAST_DEVICES))
            if hundredths < PARTS:
                below = int(hundredths)
                growth = served_by[below + 1] - served_by[below]
                served = min(served, growth * (hundredths - below) + served_by[below])
    return _WEIGHT * devices * (1 - served)


def _served_by(needs: Iterable[Need]) -> tuple[float, tuple[float, ...]]:
    """Return how much is asked for with each device, and which part of the devices each hundredth of that serves.

    What asks for least comes first. So the last cores beside a free device are dearest, and those that only the work
    with the most of them would use are cheap.
    """
    ordered = sorted(needs, key=lambda need: need[0] / need[1])
    amounts, devices = np.cumsum([(0.0, 0.0), *ordered], axis=0).T
    parts = np.interp(_HUNDREDTHS / PARTS * amounts[-1], amounts, devices / devices[-1])
    return float(amounts[-1] / devices[-1]), tuple(parts.tolist())


def _hundredths(request: Request, device_mib: int) -> int:
    """Return which part of a device it takes of each, rounded up; 0 for work without devices, or with slices."""
    if request.gpus:
        return PARTS
    milli = request.share_milli or ONE_GPU * request.share_mib / device_mib
    return min(PARTS, -int(-milli * PARTS // ONE_GPU))


@dataclass(frozen=True, slots=True)
class _Cut:
    """How a device is best cut: what it earns by its free capacity, and how much of each size a whole one yields."""

    value: Floats
    pieces: Floats


def _value_by_capacity(asked: dict[int, float]) -> tuple[float, ...]:
    """Return what a device earns by the hundredths of it that are free.

    Served work of a size earns its size, less a rent that is as high as lets the sizes that pack badly be the ones for
    which capacity runs out. Rents fall while a size gets less than was asked for and rise while it would get more; the
    steps shrink, and choices are softened, so that this settles.
    """
    sizes = np.array(sorted(asked), dtype=np.int64)
    gain = sizes / PARTS
    requested = np.array([asked[size] for size in sizes.tolist()])
    requested = requested * _LOAD / float(requested @ gain)  # for one device
    rent = _FIRST_RENT * gain
    for turn in range(_ROUNDS):
        served = _cut(sizes, gain - rent).pieces
        step = _FIRST_STEP * (1 - turn / _ROUNDS) ** 2 + _LAST_STEP
        rent = np.maximum(0.0, rent - step * gain * np.clip(1 - served / requested, -1.0, 1.0))
    return tuple(_cut(sizes, gain - rent).value.tolist())


def _cut(sizes: npt.NDArray[np.int64], worth: Floats) -> _Cut:
    """Fill a device with pieces by their worth: a knapsack with soft maxima, forwards for values, back for pieces."""
    value = np.zeros(PARTS + 1)
    chances: list[Floats] = [np.ones(1)]
    for capacity in range(1, PARTS + 1):
        fitting = sizes[: np.searchsorted(sizes, capacity, side="right")]
        options = (
            np.concatenate((value[capacity - 1 : capacity], worth[: len(fitting)] + value[capacity - fitting]))
            / _SOFTNESS
        )
        highest = options.max()
        weights = np.exp(options - highest)
        total = weights.sum()
        value[capacity] = _SOFTNESS * (highest + np.log(total))
        chances.append(weights / total)
    reached, pieces = np.zeros(PARTS + 1), np.zeros(len(sizes))
    reached[PARTS] = 1.0
    for capacity in range(PARTS, 0, -1):
        fitting = sizes[: len(chances[capacity]) - 1]
        flow = reached[capacity] * chances[capacity]
        reached[capacity - 1] += flow[0]
        reached[capacity - fitting] += flow[1:]
        pieces[: len(fitting)] += flow[1:]
    return _Cut(value, pieces)
