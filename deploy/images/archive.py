"""Write container images as archives that `docker load`, `podman load` and `ctr images import` read.

Only the standard library, no container engine, no registry. The same input gives the same bytes.
"""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from platform import machine
from typing import BinaryIO

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Image:
    """Name and configuration of an image, as a Dockerfile would state them."""

    name: str
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    user: str = ""
    working_folder: str = "/"
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Layer:
    """A compressed layer, and the digest of its content before it was compressed."""

    path: Path
    content_digest: str


def write_layer(path: Path, folder: Path, *, modified_at: int = 0) -> Layer:
    """Write a folder as a layer. Files keep mode and numeric owner; times are `modified_at` (Unix seconds)."""

    def normalize(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uname = entry.gname = ""
        entry.mtime = modified_at
        return entry

    with path.open("wb") as file, gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as compressed:
        content = _Hashing(compressed)
        with tarfile.open(fileobj=content, mode="w|", format=tarfile.PAX_FORMAT) as layer:
            for source in sorted(folder.rglob("*")):
                layer.add(source, str(source.relative_to(folder)), recursive=False, filter=normalize)
    return Layer(path, content.digest.hexdigest())


class _Hashing:
    """A writer that keeps the digest of what passed."""

    def __init__(self, target: gzip.GzipFile) -> None:
        self._target = target
        self.digest = hashlib.sha256()

    def write(self, block: bytes) -> int:
        self.digest.update(block)
        return self._target.write(block)


def write_image(path: Path, image: Image, layers: Sequence[Layer], *, modified_at: int = 0) -> None:
    """Write an image of the given layers, the lowest first."""
    created = datetime.fromtimestamp(modified_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = {
        "architecture": _ARCHITECTURES.get(machine(), machine()),
        "os": "linux",
        "created": created,
        "config": {
            "Cmd": list(image.command),
            "Env": [f"{name}={value}" for name, value in image.environment.items()],
            "User": image.user,
            "WorkingDir": image.working_folder,
            "Labels": image.labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.content_digest}" for layer in layers]},
        "history": [{"created": created} for _ in layers],
    }
    config_text = json.dumps(config, sort_keys=True).encode()
    config_name = f"{hashlib.sha256(config_text).hexdigest()}.json"
    names = [f"{layer.content_digest}/layer.tar" for layer in layers]
    manifest = [{"Config": config_name, "RepoTags": [image.name], "Layers": names}]
    with tarfile.open(path, "w") as archive:
        _add(archive, config_name, len(config_text), io.BytesIO(config_text))
        for name, layer in zip(names, layers, strict=True):
            with layer.path.open("rb") as content:
                _add(archive, name, layer.path.stat().st_size, content)
        text = json.dumps(manifest).encode()
        _add(archive, "manifest.json", len(text), io.BytesIO(text))


def _add(archive: tarfile.TarFile, name: str, size: int, content: BinaryIO) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = size
    archive.addfile(entry, content)
