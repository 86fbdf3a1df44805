"""A training loop that keeps checkpoints: what it learns depends on every step, each done once.

It saves every `EVERY` steps. Into its checkpoint folder it also writes how far it came (`progress`), and at each start
how many steps it has to do again (`lost`). It waits at the step that the file `limit` there names, if there is one.
"""

import json
import os
import sys
import time
from pathlib import Path

import nearline

EVERY = 10


def learn(weight: float, step: int) -> float:
    """Return the weight after one step of gradient descent towards y = 3 x."""
    x = (step * 37 % 11 + 1) / 11
    return weight - 0.02 * (weight * x - 3 * x) * x


def result_of(steps: int) -> float:
    """Return what so many steps without an interruption learn."""
    weight = 0.0
    for step in range(1, steps + 1):
        weight = learn(weight, step)
    return weight


def read_lost(folder: Path) -> list[int]:
    """Return how many steps each start had to do again."""
    return [int(line) for line in (folder / "lost").read_text().split()]


def read_progress(folder: Path) -> int:
    """Return the last step that was done."""
    path = folder / "progress"
    return int(path.read_text() or 0) if path.exists() else 0


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(text)
    part.replace(path)


def _wait_at_limit(folder: Path, step: int) -> None:
    limit = folder / "limit"
    while limit.exists() and step >= int(limit.read_text()):
        time.sleep(0.005)


def train(steps: int, pause_s: float) -> None:
    """Train from the last checkpoint on, and leave the weight as the job's output."""
    folder = nearline.checkpoints()
    state = {"step": 0, "weight": 0.0}
    if (folder / "state.json").exists():
        state = json.loads((folder / "state.json").read_text())
    with (folder / "lost").open("a") as lost:
        lost.write(f"{read_progress(folder) - state['step']}\n")
    weight = state["weight"]
    for step in range(state["step"] + 1, steps + 1):
        weight = learn(weight, step)
        if step % EVERY == 0:
            _replace(folder / "state.json", json.dumps({"step": step, "weight": weight}))
            nearline.checkpoint_saved(step)
        _replace(folder / "progress", str(step))
        _wait_at_limit(folder, step)
        time.sleep(pause_s)
    (nearline.output() / "result.json").write_text(
        json.dumps({"weight": weight, "lost": (folder / "lost").read_text()})
    )


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    train(int(sys.argv[1]), float(sys.argv[2]))
