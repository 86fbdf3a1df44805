"""Which part of this machine's file system a job sees: the view that its sandbox is made of.

Hidden are the platform's home, the home of the platform's user, and the sockets in /run; /tmp is the job's own folder.
All else is readable as far as the user may read it, and only the job's own folders are writable. Of what is hidden a
job sees its mounts, in its own folder, and the programs that the platform's own search paths name.
"""

import os
import pwd
import site
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from operator import itemgetter
from pathlib import Path

from compute.adapters.local.binds import Bind
from compute.adapters.local.folders import JobFolder
from compute.adapters.local.sandbox import HIDE, READ, WRITE
from compute.engine.environment import JobPaths
from compute.engine.job_spec import JobSpec
from compute.engine.ports import Launch
from compute.engine.volumes import JobVolume
from compute.errors import VolumeRefused

Entry = tuple[str, str, str]

_PRODUCT = Path(__file__).resolve().parents[3]
_SHARED_TMP = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 (hidden, not written to)
_SOCKETS = Path("/run")
# Name resolution, the helpers of NVIDIA's driver, and the programs of NixOS.
_SHOWN_OF_SOCKETS = (
    "systemd/resolve",
    "resolvconf",
    "NetworkManager/resolv.conf",
    "nscd",
    "nvidia-persistenced",
    "nvidia-fabricmanager",
    "nvidia-topologyd",
    "opengl-driver",
    "current-system",
)


@dataclass(frozen=True)
class Views:
    """Makes the views of one platform's jobs. `hidden`: its own folders; the others are shown to every job."""

    hidden: Sequence[Path]
    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()

    def view_of(
        self,
        folder: JobFolder,
        launch: Launch,
        binds: Sequence[Bind],
        paths: JobPaths,
        volumes: Sequence[JobVolume] = (),
    ) -> list[Entry]:
        """Return the view of one job, whose folder is prepared for these binds and paths.

        Raises VolumeRefused for a volume that cannot be shown.
        """
        jobs, _, name = folder.path.rpartition("/")
        place = f"{_without_links(jobs)}/{name}"
        own = [*_show_own(WRITE, folder, place, ("work", "output", "tmp"))]
        _, _, tmp = own[-1]
        shown = _without_needless(
            [
                *self._common,
                *((HIDE, path, tmp) for path in self._shared_tmp),
                *_show_own(READ, folder, place, ("data", "input", "parameters.json")),
                *_show(READ, _given(launch.spec)),
                *own,
                *_show(WRITE, [Path(paths.checkpoint)] if paths.checkpoint else []),
            ]
        )
        return [*shown, *_mounts(shown, place, binds), *self._show_volumes(shown, volumes)]

    def _show_volumes(self, shown: Sequence[Entry], volumes: Sequence[JobVolume]) -> list[Entry]:
        entries: dict[str, Entry] = {}
        for volume in volumes:
            source = os.path.realpath(volume.name)
            for hidden in map(os.path.realpath, self.hidden):
                if _is_within(source, hidden) or _is_within(hidden, source):
                    raise VolumeRefused(f"{volume.name} holds files of the platform, which jobs do not see.")
            for entry in _place_for(shown, volume.path):
                entries[entry[1]] = entry
            entries[volume.path] = (READ if volume.read_only else WRITE, volume.path, source)
        return list(entries.values())

    @cached_property
    def _shared_tmp(self) -> list[str]:
        return [str(path.resolve()) for path in _SHARED_TMP if path.is_dir()]

    @cached_property
    def _common(self) -> list[Entry]:
        hidden = {path.resolve() for path in (*self.hidden, *_user_homes(), _SOCKETS) if path.is_dir()}
        return [
            *((HIDE, str(path), "") for path in hidden),
            *_show(READ, [*_programs(), *(_SOCKETS / name for name in _SHOWN_OF_SOCKETS), *self.readable]),
            *_show(WRITE, self.writable),
        ]


def _programs() -> list[Path]:
    """Return the folders of this Python, of its packages, and of the programs on the search path."""
    pythons = [sys.prefix, sys.base_prefix, sys.exec_prefix, site.getusersitepackages(), *sys.path]
    binaries = [Path(entry) for entry in os.get_exec_path() if entry]
    libraries = [entry.with_name("lib") for entry in binaries if entry.name == "bin"]
    paths = [*(Path(entry).absolute() for entry in pythons if entry), *binaries, *libraries]
    # Neither a home that happens to be on a search path, nor the product's own code.
    kept_out = [*_user_homes(), _PRODUCT, _PRODUCT / "platform"]
    return [path for path in paths if not any(other.is_relative_to(path) for other in kept_out)]


def _user_homes() -> list[Path]:
    homes = [os.environ.get("HOME", "")]
    with suppress(KeyError):  # a container may run as a user without an entry
        homes.append(pwd.getpwuid(os.getuid()).pw_dir)
    return [Path(home) for home in homes if home and Path(home).is_dir() and Path(home) != Path("/")]


def _given(spec: JobSpec) -> list[Path]:
    """Return the folders that the job reads under the host's own paths."""
    listed = [path for file in spec.readable_lists for path in Path(file).read_text().splitlines()]
    return [Path(path) for path in (*spec.readable_paths, *listed, *filter(None, [spec.working_directory]))]


def _mounts(shown: Sequence[Entry], place: str, binds: Sequence[Bind]) -> Iterator[Entry]:
    """Mount each bind wherever the folder that holds it is shown. `place` is the job's folder, without links.

    Links to its source are followed when it is mounted: a copy that is being filled may move until then.
    """
    if not binds:
        return
    owns = {part: _source_of(f"{place}/{part}") for part in ("data", "input")}
    places = {part: {own, *(target for _, target, source in shown if source == own)} for part, own in owns.items()}
    for bind in binds:
        part, _, name = bind.place.partition("/")
        for shown_at in places[part]:
            yield READ if bind.read_only else WRITE, f"{shown_at}/{name}", str(bind.source.absolute())


def _place_for(shown: Sequence[Entry], path: str) -> list[Entry]:
    """Return what is covered for a volume: nothing where there is a folder, or one can be made. Raises VolumeRefused.

    The sandbox is read-only, so that below a folder of this machine none can be made; an empty one is covered.
    """
    holder = path
    while not os.path.isdir(holder):
        holder = holder.rpartition("/")[0] or "/"
    if holder == path or any(_is_within(holder, other) for kind, other, _ in shown if kind != READ):
        return []
    with suppress(OSError):
        if holder != "/" and not os.listdir(holder):
            return [(HIDE, holder, "")]
    raise VolumeRefused(f"There is no folder {path} on this machine, and none can be made. Use one below /tmp.")


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _show(kind: str, paths: Iterable[Path]) -> list[Entry]:
    """Show what exists under its own path, and under the one that jobs use where that leads through links."""
    entries: dict[str, Entry] = {}
    for path in paths:
        if os.access(path, os.F_OK):  # a search path may lead where this user may not look
            source = str(path.resolve())
            for target in (source, str(path.absolute())):
                entries[target] = (kind, target, source)
    return list(entries.values())


def _show_own(kind: str, folder: JobFolder, place: str, names: Iterable[str]) -> Iterator[Entry]:
    """Show what a job has in its own folder, as `_show` does. `place` is the folder's path without links."""
    for name in names:
        source = _source_of(f"{place}/{name}")
        for target in dict.fromkeys((source, f"{folder.path}/{name}")):
            yield kind, target, source


def _source_of(own: str) -> str:
    return os.path.realpath(own) if os.path.islink(own) else own


@cache
def _without_links(jobs: str) -> str:
    """Return the path of a folder of jobs, which stays where it is."""
    return os.path.realpath(jobs)


def _without_needless(entries: Iterable[Entry]) -> list[Entry]:
    """Leave out what the nearest folder above that has an entry shows, or hides, anyway."""
    needed: dict[str, Entry] = {}
    for entry in sorted(entries, key=itemgetter(1)):  # a folder before what is in it
        kind, target, source = entry
        parent = target
        while parent and (parent := parent.rpartition("/")[0]) not in needed:
            pass
        above = needed.get(parent or "/", (READ, "", ""))
        is_covered = above[0] == HIDE
        # What another folder covers is hidden, yet not empty: what is hidden in it is emptied.
        is_as_above = kind == above[0] and not (is_covered and above[2])
        # Where nothing covers a link it is there anyway, and cannot be mounted on.
        is_link = source not in {"", target} and kind != HIDE
        if is_covered if is_link else not is_as_above:
            needed[target] = entry
    return list(needed.values())
