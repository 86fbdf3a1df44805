"""What a job finds in its folders, and where each of it comes from: the vocabulary of every driver.

A source is known by a place that a driver can mount, never by a path that only one machine understands: a folder of the
platform's host or of one that is reached by SSH, a claim of a cluster, an export of a file server, or a tree in the
store that is written to the job.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from compute.errors import InvalidJobSpec


class SourceKind(StrEnum):
    """Where the content of a mount comes from."""

    HOST_FOLDER = "host_folder"
    VOLUME = "volume"
    NFS_EXPORT = "nfs_export"
    REMOTE_FOLDER = "remote_folder"
    TREE = "tree"


_WORDS = {
    SourceKind.HOST_FOLDER: "folders of the platform's host",
    SourceKind.VOLUME: "volumes of a cluster",
    SourceKind.NFS_EXPORT: "NFS exports",
    SourceKind.REMOTE_FOLDER: "folders of a host that is reached by SSH",
    SourceKind.TREE: "trees of the store",
}


@dataclass(frozen=True)
class HostFolder:
    """A folder of the machine that the platform runs on."""

    path: str
    kind: ClassVar = SourceKind.HOST_FOLDER


@dataclass(frozen=True)
class Volume:
    """A persistent volume claim, or a folder of it.

    One with a `namespace` may lie in another one than the jobs: they read it by a claim of its `storage_class`, which
    shares its volume. One without is in the namespace of the jobs.
    """

    claim: str
    sub_path: str = ""
    namespace: str = ""
    storage_class: str = ""
    kind: ClassVar = SourceKind.VOLUME


@dataclass(frozen=True)
class NfsExport:
    """An export of an NFS server, or a folder of it."""

    server: str
    path: str
    sub_path: str = ""
    kind: ClassVar = SourceKind.NFS_EXPORT


@dataclass(frozen=True)
class RemoteFolder:
    """A folder of the host that is attached as a resource, given by id."""

    resource: str
    path: str
    kind: ClassVar = SourceKind.REMOTE_FOLDER


@dataclass(frozen=True)
class Tree:
    """The files under a root in the store of a dataset. Whoever mounts it reads them from there."""

    dataset_id: str
    root: str
    kind: ClassVar = SourceKind.TREE


Source = HostFolder | Volume | NfsExport | RemoteFolder | Tree
_SOURCES: Mapping[str, type[Source]] = {
    source.kind: source for source in (HostFolder, Volume, NfsExport, RemoteFolder, Tree)
}


@dataclass(frozen=True)
class Mount:
    """One source under a name. The name of a try of a grid is `step/index`."""

    name: str
    source: Source
    read_only: bool = True

    def to_json(self) -> dict[str, object]:
        """Return the mount as JSON types."""
        return {"name": self.name, "source": source_to_json(self.source), "read_only": self.read_only}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> "Mount":
        """Read `to_json`'s answer. Raises InvalidJobSpec."""
        source = value.get("source")
        if not isinstance(source, Mapping):
            raise InvalidJobSpec(f"The mount '{value.get('name')}' has no source.")
        return cls(str(value["name"]), source_from_json(source), bool(value.get("read_only", True)))


def source_to_json(source: Source) -> dict[str, str]:
    """Return a source as JSON types."""
    return {"kind": source.kind.value, **vars(source)}


def source_from_json(value: Mapping[str, object]) -> Source:
    """Read `source_to_json`'s answer. Raises InvalidJobSpec for a kind that is not known."""
    fields = {key: str(item) for key, item in value.items() if key != "kind"}
    source = _SOURCES.get(str(value.get("kind")))
    if source is None:
        raise InvalidJobSpec(f"'{value.get('kind')}' is no source of a mount. There are: {', '.join(_SOURCES)}.")
    try:
        return source(**fields)
    except TypeError as error:
        raise InvalidJobSpec(f"A mount from a {source.kind} is described by other fields: {error}.") from error


def describe_kinds(kinds: Collection[SourceKind]) -> str:
    """Name kinds of sources as a person reads them: `volumes of a cluster and NFS exports`."""
    words = [_WORDS[kind] for kind in SourceKind if kind in kinds]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]])) or "nothing"
