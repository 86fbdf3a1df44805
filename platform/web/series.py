"""Charts as data: what `<series-chart>` draws."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Protocol

_MIB, _GIB = 2**20, 2**30
_TABLE_ROWS = 200


@dataclass(frozen=True)
class Series:
    """One line. `hue` is one of eight colours; None in `values` is a gap. `dashed`: a bound, not a measurement."""

    label: str
    hue: int
    values: Sequence[float | None]
    dashed: bool = False


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
    def cpu_millicores(self) -> int | None:
        """Thousandths of a core; None: not measured."""

    @property
    def memory_bytes(self) -> int | None:
        """Resident memory; None: not measured."""

    @property
    def gpu_percent(self) -> int | None:
        """Mean utilisation of the GPUs; None: not measured."""

    @property
    def gpu_memory_used_bytes(self) -> int | None:
        """GPU memory; None: not measured."""


def usage_charts(samples: Sequence[Sample]) -> list[Chart]:
    """Return the charts of what is measured over the seconds since the first sample; none without any."""
    seconds = [round((sample.at - samples[0].at).total_seconds(), 1) for sample in samples]
    largest = max((sample.memory_bytes or 0 for sample in samples), default=0)
    size, memory_unit = (_GIB, " GiB") if largest > _GIB else (_MIB, " MiB")
    lines = (
        ("CPU cores", "", 1000, [sample.cpu_millicores for sample in samples]),
        ("Memory", memory_unit, size, [sample.memory_bytes for sample in samples]),
        ("GPU utilisation", " %", 1, [sample.gpu_percent for sample in samples]),
        ("GPU memory", " GiB", _GIB, [sample.gpu_memory_used_bytes for sample in samples]),
    )
    charts = []
    for hue, (title, unit, one, values) in enumerate(lines):
        if any(value is not None for value in values):
            line = Series(title, hue, [None if value is None else value / one for value in values])
            charts.append(Chart(title, seconds, "seconds", unit, [line]))
    return charts
