"""The plots of the data plane: what each tool takes beside ours, and what our work takes as a dataset grows."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

OURS, PEER, LIMIT = "#206bc4", "#868e96", "#2fb344"
_WORKS = {"send": "PUT ceiling", "fetch": "GET ceiling"}
"""What is compared, with the least that it could take."""
_COLUMNS = 4


def draw_comparison(panels: Mapping[str, Mapping[tuple[str, str], float]], path: Path) -> None:
    """Write a plot of the seconds that each tool took to send and to fetch a set, one panel for each set and store."""
    shown = [(title, work, seconds) for title, seconds in panels.items() for work in _WORKS]
    height = -(-len(shown) // _COLUMNS)
    figure = _new_figure(3.2 * _COLUMNS, 2.2 * height)
    axes = figure.subplots(height, _COLUMNS, squeeze=False).ravel()
    for axis in axes[len(shown) :]:
        axis.set_axis_off()
    for axis, (title, work, seconds) in zip(axes, shown, strict=False):
        rows = sorted((value, who) for (what, who), value in seconds.items() if what == work)
        least = next(value for (what, _), value in seconds.items() if what == _WORKS[work])
        names = ["Nearline" if who == "ours" else who for _, who in rows]
        bars = axis.barh(
            names, [value for value, _ in rows], color=[OURS if who == "ours" else PEER for _, who in rows]
        )
        axis.bar_label(bars, fmt="%.1f", padding=2, fontsize=8)
        axis.axvline(least, color=LIMIT, linewidth=1)
        axis.invert_yaxis()
        axis.set_title(f"{work}: {title}", fontsize=8)
        axis.set_xlabel("seconds; green: objects of 32 MiB", fontsize=8)
        axis.margins(x=0.15)
        _tidy(axis)
    figure.savefig(path, metadata={"Date": None})


def draw_growth(seconds: Mapping[str, Mapping[int, float]], path: Path) -> None:
    """Write a plot of the seconds that each work took over the number of files, both axes logarithmic.

    What is done a second time, when it is in memory, is left out.
    """
    figure = _new_figure(9, 5)
    axis = figure.subplots()
    shown = {what: points for what, points in seconds.items() if not what.endswith(", again")}
    for (what, points), color in zip(shown.items(), mpl.color_sequences["tab20"], strict=False):
        sizes = sorted(points)
        style = {"linestyle": "--", "color": PEER} if what == "the bare walk" else {"color": color}
        axis.loglog(sizes, [points[size] for size in sizes], marker="o", markersize=3, label=what, **style)
    sizes = sorted({size for points in seconds.values() for size in points})
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=20, ha="right")
    axis.set_xticks([], minor=True)
    axis.set_xlabel("files")
    axis.set_ylabel("seconds")
    axis.grid(which="major", alpha=0.3)
    _tidy(axis)
    figure.legend(frameon=False, loc="outside right upper", fontsize=8)
    figure.savefig(path, metadata={"Date": None})


def _new_figure(width: float, height: float) -> Figure:
    mpl.rcParams.update({"svg.hashsalt": "nearline", "font.size": 9, "font.family": "sans-serif"})
    return Figure(figsize=(width, height), layout="constrained")


def _tidy(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)
