"""Remove what a cluster left on the machine, once standard input ends: lines `folder F`, `bridge B`, `cgroup C`,
`table T`.

The pipe ends when the test process closes it or is killed. Programs of the cluster may take a moment to end then, so
every removal is tried again for a while.
"""

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
DEVICES = Path("/sys/class/net")
LIMIT_S = 300


def remove_folder(folder: str) -> None:
    """Remove a folder once no program of it runs: one that is killed may take a moment, and write till then."""
    if programs := [pid for pid, line in command_lines() if folder in line]:
        raise OSError(f"Programs of {folder} still run: {', '.join(programs)}.")
    if Path(folder).exists():
        shutil.rmtree(folder)


def command_lines() -> Iterator[tuple[str, str]]:
    """Yield the id and the command line of each process of this machine."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            yield process.parent.name, process.read_bytes().replace(b"\0", b" ").decode(errors="replace")


def remove_bridge(name: str) -> None:
    if (DEVICES / name).exists():
        subprocess.run(["ip", "link", "delete", name], check=False)
    if (DEVICES / name).exists():
        raise OSError(f"The bridge {name} is still there.")


def remove_control_groups(name: str) -> None:
    """Remove a tree of groups in every hierarchy; a group with a process in it refuses."""
    for root in [CGROUPS / name, *CGROUPS.glob(f"*/{name}")]:
        for group in [*sorted(root.rglob("*/"), reverse=True), root] if root.exists() else ():
            group.rmdir()


def remove_table(name: str) -> None:
    """Remove a table of packet rules of each family."""
    for family in ("ip", "ip6"):
        subprocess.run(["nft", "delete", "table", family, name], check=False, stderr=subprocess.DEVNULL)


REMOVALS = {
    "folder": remove_folder,
    "bridge": remove_bridge,
    "cgroup": remove_control_groups,
    "table": remove_table,
}


def repeat(remove: Callable[[str], None], name: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            return remove(name)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    for line in reversed(sys.stdin.read().splitlines()):
        kind, _, name = line.partition(" ")
        repeat(REMOVALS[kind], name)
