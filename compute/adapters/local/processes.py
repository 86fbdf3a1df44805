"""The processes of one job on this machine, found from the shim that stands beside it."""

import asyncio
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from compute.adapters.local import shim
from compute.adapters.local.folders import JobFolder
from compute.errors import JobNotRunning

_NOT_RUNNING = "The command of the job does not run."
# A job is reported as running when its shim begins: its code may have to be copied yet.
_TRIES, _PAUSE_S = 100, 0.05


@dataclass(frozen=True)
class JobProcesses:
    """The live processes of a job. `command` is its own command."""

    pids: frozenset[int]
    command: int
    is_confined: bool


async def wait_for_processes(folder: JobFolder) -> JobProcesses:
    """Return the processes of a job, once its command has begun. Raises JobNotRunning."""
    for _ in range(_TRIES):
        try:
            return await asyncio.to_thread(find_processes, folder)
        except JobNotRunning:
            if folder.has_ended() or not folder.is_locked():
                raise
            await asyncio.sleep(_PAUSE_S)
    raise JobNotRunning(_NOT_RUNNING)


def find_processes(folder: JobFolder) -> JobProcesses:
    """Return the processes of a job. Raises JobNotRunning, also in the moments before its command begins."""
    facts = folder.read("started.json")
    children = _children_by_parent()
    if facts is None or folder.has_ended():
        raise JobNotRunning(_NOT_RUNNING)
    watcher = int(facts["shim"])
    # Its other children are orphans that it has adopted, and younger.
    first = min(children.get(watcher, []), key=_started_ticks, default=None)
    if first is None:
        raise JobNotRunning(_NOT_RUNNING)
    is_confined = _namespace_of(first) != _namespace_of(os.getpid())
    pids = set(_descendants(watcher, children))
    if not is_confined:  # those beside its command, as of `nearline job exec`, are known by their environment
        pids |= {process.pid for process in shim.list_processes(folder.output, session=first)}
    # The first process of a sandbox also inherits orphans; the command is in the session that it began.
    candidates = children.get(first, []) if is_confined else [first]
    commands = [pid for pid in candidates if (process := shim.process_facts(pid)) and process.session == first]
    if not commands:
        raise JobNotRunning(_NOT_RUNNING)
    return JobProcesses(frozenset(pids), min(commands), is_confined)


def _started_ticks(pid: int) -> float:
    facts = shim.process_facts(pid)
    return facts.started_ticks if facts is not None else math.inf


def _children_by_parent() -> Mapping[int, list[int]]:
    """Return the children of every process."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and (facts := shim.process_facts(int(entry.name))) is not None:
            children.setdefault(facts.parent, []).append(facts.pid)
    return children


def _descendants(pid: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    """Yield all that a process began, and what those began."""
    waiting = [pid]
    while waiting:
        offspring = children.get(waiting.pop(), [])
        yield from offspring
        waiting += offspring


def _namespace_of(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/user").readlink())
    except OSError as error:
        raise JobNotRunning(_NOT_RUNNING) from error
