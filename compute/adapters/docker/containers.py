"""From a launch to a container: pure, so that the same launch makes the same container.

Each run has two containers. Its *record* never runs: it claims the name, says that somebody prepares the run (`beat`)
and why the run was ended (`verdict`), and is removed when the run is forgotten. The container of the run itself is the
user's image, with code, inputs and trees unpacked into it before it starts; it stays until the run is deleted.
"""

import hashlib
import io
import json
import math
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from compute.engine.environment import JobPaths, job_environment
from compute.engine.job_spec import HostFolder, Mount, SourceKind, Tree, describe_kinds
from compute.engine.ports import Launch
from compute.errors import StartRefused
from core.units import ONE_GPU

Json = dict[str, Any]

DOMAIN = "nearline.dev"
RESOURCE, NAME, TOKEN, JOB_ID = f"{DOMAIN}/resource", f"{DOMAIN}/name", f"{DOMAIN}/token", f"{DOMAIN}/job"
ROLE, RECORD, RUN = f"{DOMAIN}/role", "record", "run"
TIMEOUT, GRACE, SECRETS = f"{DOMAIN}/timeout", f"{DOMAIN}/grace-period", f"{DOMAIN}/secrets"
GPUS = f"{DOMAIN}/gpus"
"""The label of containers that were given GPUs, with their indexes."""
EMPTY_IMAGE = "nearline/record:1"
PATHS = JobPaths(
    work="/work",
    data="/data",
    input="/input",
    output="/output",
    parameters="/nearline/parameters.json",
    tmp="/tmp",  # noqa: S108 (a path of the container)
)
_LOG = {"Type": "json-file", "Config": {"max-size": "60m", "max-file": "2"}}
_PIECE_BYTES = 1 << 18


@dataclass(frozen=True)
class ContainerSettings:
    """What an admin sets for all containers of a daemon. `resource` is an id that no other installation has."""

    resource: str
    default_image: str = ""
    network: str = ""


def container_name(settings: ContainerSettings, name: str, role: str) -> str:
    """Return the name of one of the containers of a run: the same each time, and unlike that of any other run."""
    text = f"{settings.resource}/{name}"
    readable = re.sub("[^a-z0-9]+", "-", name.lower())[:40].strip("-")
    return f"nl-{readable}-{hashlib.sha256(text.encode()).hexdigest()[:12]}" + (".record" if role == RECORD else "")


def check_launch(launch: Launch, settings: ContainerSettings, mountable: frozenset[SourceKind]) -> None:
    """Raise StartRefused for a launch that can never be a container here."""
    kinds = {mount.source.kind for mount in launch.spec.mounts} - mountable
    if kinds:
        raise StartRefused(f"The job reads {describe_kinds(kinds)}, which cannot be mounted on this Docker host.")
    if launch.spec.working_directory is not None:
        raise StartRefused(
            f"The job asks for the working directory {launch.spec.working_directory} of the platform's machine, "
            "which containers do not have."
        )
    if any(share.milli != ONE_GPU for share in launch.gpus):
        raise StartRefused("The job asks for a part of a GPU. Docker gives whole GPUs only: choose another template.")
    if not (launch.spec.image or settings.default_image):
        raise StartRefused("The job names no image, and this Docker host has no default one. Give the job an image.")


def image_of(launch: Launch, settings: ContainerSettings) -> str:
    """Return the image of a job, with its tag: a name alone would pull all tags."""
    image = launch.spec.image or settings.default_image
    is_exact = "@" in image or ":" in image.rpartition("/")[2]
    return image if is_exact else f"{image}:latest"


def build_record(launch: Launch, settings: ContainerSettings) -> Json:
    """Return the record of a run."""
    return {
        "Image": EMPTY_IMAGE,
        "Cmd": ["none"],
        "Labels": _labels(launch, settings, RECORD),
        "HostConfig": {"NetworkMode": "none"},
    }


def build_run(launch: Launch, settings: ContainerSettings) -> Json:
    """Return the container of a run."""
    argv = launch.spec.argv()
    gpus = [str(share.index) for share in launch.gpus]
    return {
        "Image": image_of(launch, settings),
        # Without a command the image's own entry point runs, where the image says.
        **({"Entrypoint": argv[:1], "Cmd": argv[1:], "WorkingDir": PATHS.work} if argv else {}),
        "Env": [f"{key}={value}" for key, value in sorted(_environment(launch).items())],
        "Labels": {
            **_labels(launch, settings, RUN),
            GRACE: f"{launch.spec.grace_period_s:g}",
            SECRETS: json.dumps(sorted(launch.secrets)),
            **({TIMEOUT: f"{launch.spec.timeout_s:g}"} if launch.spec.timeout_s is not None else {}),
            **({GPUS: ",".join(gpus)} if gpus else {}),
        },
        "StopTimeout": math.ceil(launch.spec.grace_period_s),
        "HostConfig": {
            # The first process of a container ignores signals that it does not handle; this one hands them on.
            "Init": True,
            "NanoCpus": launch.cpu_millicores * 10**6,
            "Memory": launch.memory_bytes,
            "MemorySwap": launch.memory_bytes,
            "ShmSize": launch.memory_bytes,
            "SecurityOpt": ["no-new-privileges"],
            "LogConfig": _LOG,
            "RestartPolicy": {"Name": "no"},
            "Mounts": list(_binds(launch)),
            **({"NetworkMode": settings.network} if settings.network else {}),
            **({"DeviceRequests": [{"DeviceIDs": gpus, "Capabilities": [["gpu"]]}]} if gpus else {}),
        },
    }


def list_unpacked(launch: Launch) -> Sequence[tuple[str, Tree | HostFolder]]:
    """Return what is copied into a container, each with the folder in which its job finds it: trees, and all code."""
    return [
        (place, mount.source)
        for place, mount in _places(launch)
        if isinstance(mount.source, Tree) or (isinstance(mount.source, HostFolder) and place == PATHS.work)
    ]


def secret_names(labels: Mapping[str, str]) -> Sequence[str]:
    """Return which variables of a run hold secrets."""
    names: Sequence[str] = json.loads(labels.get(SECRETS, "[]"))
    return names


def folders_archive(launch: Launch) -> bytes:
    """Return the archive of the folders and files that every run finds."""
    parameters = json.dumps(dict(launch.spec.parameters)).encode()
    places = {PATHS.data, PATHS.input, *(place for place, _ in list_unpacked(launch))}
    writable = {PATHS.work: 0o777, PATHS.output: 0o777, PATHS.tmp: 0o1777}
    folders = dict.fromkeys(places, 0o755) | {"/nearline": 0o755} | writable
    parents = {str(parent): 0o755 for place in folders for parent in PurePosixPath(place).parents}
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for place, mode in sorted((parents | folders).items()):
            if place != "/":
                archive.addfile(_folder(place, mode))
        archive.addfile(_file(PATHS.parameters, len(parameters)), io.BytesIO(parameters))
    return file.getvalue()


def file_archive(path: str, content: bytes, *, at: float = 0) -> bytes:
    """Return the archive of one file that was changed at a moment."""
    file, info = io.BytesIO(), _file(path, len(content))
    info.mtime = at
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def move_archive(archive: tarfile.TarFile, place: str) -> Iterator[bytes]:
    """Yield an archive as one that unpacks below a folder, with the folders between.

    A job may run as any user of its image, and may change what is in its working directory.
    """
    opened = 0o666 if place == PATHS.work else 0o444
    folders = {PurePosixPath(place)}
    for member in archive:
        member.name = f"{place}/{member.name}".lstrip("/")
        missing = []
        for parent in PurePosixPath("/", member.name).parents:
            if parent in folders or len(parent.parts) <= len(PurePosixPath(place).parts):
                break
            missing.append(parent)
        for folder in reversed(missing):
            folders.add(folder)
            yield _folder(str(folder), 0o777 if place == PATHS.work else 0o755).tobuf(tarfile.PAX_FORMAT)
        if member.isreg():
            member.mode |= opened | (0o111 if member.mode & 0o100 else 0)
        content = archive.extractfile(member) if member.isreg() else None
        yield member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
        while content is not None and (piece := content.read(_PIECE_BYTES)):
            yield piece
        yield bytes(-member.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _places(launch: Launch) -> Iterator[tuple[str, Mount]]:
    if launch.spec.code is not None:
        yield PATHS.work, launch.spec.code
    yield from ((f"{PATHS.data}/{mount.name}", mount) for mount in launch.spec.data)
    yield from ((f"{PATHS.input}/{mount.name}", mount) for mount in launch.spec.inputs)


def _binds(launch: Launch) -> Iterator[Json]:
    for place, mount in _places(launch):
        if isinstance(mount.source, HostFolder) and place != PATHS.work:
            yield {"Type": "bind", "Source": mount.source.path, "Target": place, "ReadOnly": mount.read_only}


def _environment(launch: Launch) -> Mapping[str, str]:
    variables = dict(job_environment(launch, PATHS, search_path=""))
    if launch.spec.env.get("PATH") is None:
        variables.pop("PATH")
    # The devices that a container sees are numbered from 0, whatever they are called on the host.
    variables.pop("CUDA_VISIBLE_DEVICES")
    if not launch.gpus:
        # An image may ask for all devices by itself.
        variables |= {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
    return variables


def _labels(launch: Launch, settings: ContainerSettings, role: str) -> Mapping[str, str]:
    return {
        RESOURCE: settings.resource,
        ROLE: role,
        NAME: launch.name,
        TOKEN: launch.token,
        JOB_ID: launch.job_id,
    }


def _folder(path: str, mode: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path.lstrip("/"))
    info.type, info.mode = tarfile.DIRTYPE, mode
    return info


def _file(path: str, size_bytes: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path.lstrip("/"))
    info.mode, info.size = 0o644, size_bytes
    return info
