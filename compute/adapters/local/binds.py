"""Where a job of this machine finds its mounts: as mount points in its sandbox, or as links where it has none."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from compute.engine.job_spec import HostFolder, JobSpec, Mount
from compute.errors import StartRefused

# Beyond so many files folders are linked instead: making a link for each would hold the start up.
_MOST_LINKS = 20_000


@dataclass(frozen=True)
class Bind:
    """A folder of this machine, and where in its own folder a job finds it."""

    place: str
    source: Path
    read_only: bool

    @property
    def is_try(self) -> bool:
        """Whether it is one of several under a step's name."""
        return self.place.count("/") > 1


def list_binds(spec: JobSpec) -> list[Bind]:
    """Return what the job finds in its folders. Raises StartRefused for what is not here."""
    data = [_bind("data", mount, f"The dataset '{mount.name}'") for mount in spec.data]
    inputs = [_bind("input", mount, f"The output of the step '{mount.name}'") for mount in spec.inputs]
    binds: dict[str, Bind] = {}
    for bind in (*data, *inputs):
        if binds.setdefault(bind.place, bind) != bind:
            raise StartRefused(f"{bind.place} is there twice, at {binds[bind.place].source} and at {bind.source}.")
    return list(binds.values())


def find_source(mount: Mount, what: str) -> Path:
    """Return the folder of a mount. Raises StartRefused when there is none on this machine."""
    if not isinstance(mount.source, HostFolder):
        raise StartRefused(f"{what} cannot be mounted on this machine: it comes from a {mount.source.kind}.")
    path = Path(mount.source.path)
    if not path.exists():
        raise StartRefused(f"{what} is not at {path}.")
    return path


def make_mount_points(folder: str, binds: Sequence[Bind]) -> None:
    """Make the folders on which the sandbox mounts what the job finds. Repeating it changes nothing."""
    for bind in binds:
        place = f"{folder}/{bind.place}"
        if os.path.islink(place):  # of a start without a sandbox
            os.unlink(place)
        os.makedirs(place, exist_ok=True)


def make_links(folder: str, binds: Sequence[Bind]) -> None:
    """Link to what the job finds. Repeating it changes nothing.

    A try of a grid is a real folder with links to the files, as most programs that walk a tree do not follow links to
    folders.
    """
    links = 0
    for bind in binds:
        place = f"{folder}/{bind.place}"
        if bind.is_try:
            links = _mirror(os.fspath(bind.source), place, links)
        elif not os.path.islink(place):
            os.symlink(bind.source, place)


def _bind(folder: str, mount: Mount, what: str) -> Bind:
    return Bind(f"{folder}/{mount.name}", find_source(mount, what), mount.read_only)


def _mirror(source: str, target: str, links: int) -> int:
    os.makedirs(target, exist_ok=True)
    for entry in _entries(source):
        place = f"{target}/{entry.name}"
        if entry.is_dir(follow_symlinks=False) and links < _MOST_LINKS:
            links = _mirror(entry.path, place, links)
        else:
            if not os.path.lexists(place):
                os.symlink(entry.path, place)
            links += 1
    return links


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from entries
