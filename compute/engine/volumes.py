"""Volumes of a job: what an admin offers on its resource, and where the job finds it. Pure, and without packages.

A job names them as `NAME:/path`, `NAME:/path:ro`. On a cluster NAME is a claim of the namespace, on a host a folder. An
admin offers whole ones, as `NAME` or, only to be read, `NAME:ro`: in a folder that jobs write to, a name of a folder
below it could lead anywhere by the time it is mounted.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from compute.errors import InvalidJobSpec

_VOLUME = re.compile(r"(?P<name>[^:\0\n]{1,300}):(?P<path>/[^:\0\n]{0,300})(:(?P<mode>ro|rw))?")
_RESERVED = (
    *("/data", "/input", "/output", "/work", "/checkpoint", "/scratch", "/nearline"),
    *("/proc", "/sys", "/dev", "/etc", "/run", "/boot", "/usr", "/bin", "/sbin", "/lib", "/lib64"),
)
"""Folders of the job itself and of its system, on and below which nothing is mounted."""
_NOT_THEMSELVES = ("/", "/tmp", "/var", "/home", "/root", "/opt")  # noqa: S108 (a path of the job)


@dataclass(frozen=True)
class JobVolume:
    """One volume of a job: its name on the resource, and at which path the job finds it."""

    name: str
    path: str
    read_only: bool


def read_volumes(texts: Sequence[str]) -> list[JobVolume]:
    """Return the volumes that a job names. Raises InvalidJobSpec for one that cannot be read, or has no such path."""
    volumes = [_read(text) for text in texts]
    for volume in volumes:
        others = [other for other in volumes if other is not volume and _is_within(other.path, volume.path)]
        if others:
            raise InvalidJobSpec(f"Of its volumes one is at {volume.path}, and another at {others[0].path}.")
    return volumes


def describe_fault(volumes: Sequence[JobVolume], offers: Sequence[str], *, resource: str) -> str:
    """Say why jobs on a resource cannot have these of the volumes that are offered there; empty: they can."""
    names = {offer.removesuffix(":ro"): offer.endswith(":ro") for offer in offers}
    for volume in volumes:
        if volume.name not in names:
            return f"{volume.name} is not offered to jobs on {resource}. An admin offers: {', '.join(offers)}."
        if names[volume.name] and not volume.read_only:
            return f"Jobs on {resource} only read {volume.name}: write {volume.name}:{volume.path}:ro."
    return ""


def _read(text: str) -> JobVolume:
    match = _VOLUME.fullmatch(text)
    if match is None:
        raise InvalidJobSpec(f"The volume '{text}' cannot be read. Write it like NAME:/path, or NAME:/path:ro.")
    name, path = match["name"], match["path"]
    parts = path.split("/")[1:]
    if path != "/" and any(part in {"", ".", ".."} for part in parts):
        raise InvalidJobSpec(f"The path {path} of a volume is written in full: no '..', '.' or '//', and no '/' last.")
    is_reserved = path in _NOT_THEMSELVES or any(_is_within(path, folder) for folder in _RESERVED)
    # A folder of a host under its own path covers nothing.
    if is_reserved and (path != name or path == "/"):
        raise InvalidJobSpec(f"Nothing is mounted at {path}, where the job and its system have files. Use /mnt/NAME.")
    return JobVolume(name, path, match["mode"] == "ro")


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
