"""The curves of `scheduler.speed`: time over the size of the cluster, one panel a shape, both axes logarithmic."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from benchmarks.scheduler.speed import Result

OURS, KAI, ASKED = "#206bc4", "#868e96", "#2fb344"
COLUMNS = 3


def draw(results: "Iterable[Result]", path: Path) -> None:
    """Write a plot of all shapes that were measured at two sizes or more."""
    curves: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        curves[result.shape].append(result)
    panels = [(shape, rows) for shape, rows in curves.items() if len(rows) > 1 and len({r.nodes for r in rows}) > 1]
    mpl.rcParams.update({"svg.hashsalt": "nearline", "font.size": 9, "font.family": "sans-serif"})
    height = -(-len(panels) // COLUMNS)
    figure = Figure(figsize=(3.6 * COLUMNS, 2.9 * height), layout="constrained")
    axes = figure.subplots(height, COLUMNS, squeeze=False).ravel()
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    for axis, (shape, rows) in zip(axes, panels, strict=False):
        known = [row for row in rows if row.kai_seconds]
        axis.loglog([row.nodes for row in known], [row.kai_seconds for row in known], "o--", color=KAI, label="KAI")
        axis.loglog([row.nodes for row in rows], [row.seconds for row in rows], "o-", color=OURS, label="Nearline")
        asked = [row for row in rows if row.asked_seconds]
        axis.loglog(
            [row.nodes for row in asked],
            [row.asked_seconds for row in asked],
            "_",
            color=ASKED,
            label="asked for",
            markersize=14,
            markeredgewidth=2,
        )
        axis.set_title(shape, fontsize=9)
        axis.set_xticks([row.nodes for row in rows], [f"{row.nodes:,}" for row in rows], minor=False)
        axis.set_xticks([], minor=True)
        axis.set_xlabel("nodes of 8 GPUs")
        axis.set_ylabel("seconds")
        axis.grid(which="major", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="outside upper center", ncols=3)
    figure.savefig(path, metadata={"Date": None})
