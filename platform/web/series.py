"""Charts as data: what `<series-chart>` draws."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Protocol

_MIB, _GIB = 2**20, 2**30
_TABLE_ROWS = 200


@dataclass(frozen=True)
class Series:
    """One line. `hue` is one of eight colours; None in `values` is a gap."""

    label: str
    hue: int
    values: Sequence[float | None]


@dataclass(frozen=True)
class Chart:
    """Lines over one axis. `unit` follows every number. `x_range` is what the axis spans; None: what `x` does."""

    title: str
    x: Sequence[float]
    x_label: str
    unit: str
    series: Sequence[Series]
    x_range: tuple[float, float] | None = None

    def to_json(self) -> dict[str, object]:
        """Return what the script in the page reads."""
        return asdict(self)

    @property
    def step(self) -> int:
        """Every how many points the table of numbers shows one."""
        return max(1, -(-len(self.x) // _TABLE_ROWS))

    @property
    def rows(self) -> list[tuple[float, list[float | None]]]:
        """The numbers as a table: x, and the value of every line there."""
        return [
            (self.x[place], [line.values[place] for line in self.series]) for place in range(0, len(self.x), self.step)
        ]


class Sample(Protocol):
    """What was used around one moment."""

    @property
    def at(self) -> datetime:
        """The moment."""

    @property
    def cpu_millicores(self) -> int:
        """Thousandths of a core."""

    @property
    def memory_bytes(self) -> int:
        """Resident memory."""

    @property
    def gpu_percent(self) -> int | None:
        """Mean utilisation of the GPUs; None: not measured."""

    @property
    def gpu_memory_used_bytes(self) -> int | None:
        """GPU memory; None: not measured."""


def usage_charts(samples: Sequence[Sample]) -> list[Chart]:
    """Return the charts of CPU, memory and measured GPUs over the seconds since the first sample; none without any."""
    if not samples:
        return []
    seconds = [round((sample.at - samples[0].at).total_seconds(), 1) for sample in samples]
    cpu = [sample.cpu_millicores / 1000 for sample in samples]
    size, unit = (_GIB, " GiB") if max(sample.memory_bytes for sample in samples) > _GIB else (_MIB, " MiB")
    memory = [sample.memory_bytes / size for sample in samples]
    charts = [
        Chart("CPU cores", seconds, "seconds", "", [Series("CPU cores", 0, cpu)]),
        Chart("Memory", seconds, "seconds", unit, [Series("Memory", 1, memory)]),
    ]
    gpu = [sample.gpu_percent for sample in samples]
    if any(percent is not None for percent in gpu):
        charts.append(Chart("GPU utilisation", seconds, "seconds", " %", [Series("GPU utilisation", 2, gpu)]))
    gpu_memory = [
        None if size is None else size / _GIB for size in (sample.gpu_memory_used_bytes for sample in samples)
    ]
    if any(size is not None for size in gpu_memory):
        charts.append(Chart("GPU memory", seconds, "seconds", " GiB", [Series("GPU memory", 3, gpu_memory)]))
    return charts
