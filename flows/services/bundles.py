"""The code that comes with a flow: a tar.gz of its folder, kept by hash and unpacked once, for jobs to copy from."""

import gzip
import hashlib
import io
import lzma
import secrets
import shutil
import tarfile
import zlib
from pathlib import Path

from django.conf import settings
from django.db import transaction

from accounts import audit
from accounts.actor import Actor
from accounts.models import Project
from accounts.permissions import require
from flows import permissions
from flows.adapters.artifact_folder import artifact_store
from flows.errors import BundleNotFound, InvalidBundle
from flows.models import Bundle

MAX_BYTES = 20 * 2**20
_MAX_UNPACKED_BYTES = 200 * 2**20
_MAX_FILES = 10_000


def save_bundle(*, actor: Actor, project: Project, data: bytes) -> Bundle:
    """Keep a bundle of code for a project's flows; the same bytes give the same bundle. Raises InvalidBundle."""
    require(actor, permissions.PUSH_FLOW, project.pk)
    if len(data) > MAX_BYTES:
        raise InvalidBundle(f"The code is larger than {MAX_BYTES // 2**20} MiB.")
    sha256 = hashlib.sha256(data).hexdigest()
    files = _unpack(data, sha256)
    # The archive itself is kept too, so that code folders can be made again from it.
    content_hash = artifact_store().keep_bytes(data)
    with transaction.atomic():
        bundle, is_new = Bundle.objects.get_or_create(
            project=project,
            sha256=sha256,
            defaults={"size_bytes": len(data), "files": files, "content_hash": content_hash},
        )
        if is_new:
            audit.record(actor, "flows.save_bundle", bundle, size_bytes=len(data))
    return bundle


def check_bundle(*, actor: Actor, project: Project, sha256: str) -> None:
    """Raise BundleNotFound unless the project has that code."""
    require(actor, permissions.PUSH_FLOW, project.pk)
    if not Bundle.objects.filter(project=project, sha256=sha256).exists():
        raise BundleNotFound(f"{project.name} has no code with the hash {sha256[:12]}.")


def unpacked_folder(sha256: str) -> Path:
    """Return the folder with the unpacked code, made again from the archive where it is gone. Raises BundleNotFound."""
    folder = _folder(sha256)
    if not folder.exists():
        bundle = Bundle.objects.filter(sha256=sha256).first()
        if bundle is None:
            raise BundleNotFound(f"There is no code with the hash {sha256[:12]}.")
        _unpack(b"".join(artifact_store().read(bundle.content_hash)), sha256)
    return folder


def _folder(sha256: str) -> Path:
    return Path(settings.NEARLINE.home).absolute() / "code" / sha256


def _unpack(data: bytes, sha256: str) -> int:
    """Unpack beside the target and rename, so that a folder that is there is whole; return the number of files."""
    target = _folder(sha256)
    draft = target.with_name(f".{sha256[:12]}-{secrets.token_hex(4)}")
    draft.mkdir(parents=True)
    try:
        files = _extract(data, draft)
        if not target.exists():
            draft.rename(target)
    except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError, ValueError) as error:
        if target.exists():  # somebody else unpacked the same bytes meanwhile
            return sum(1 for path in target.rglob("*") if path.is_file())
        raise InvalidBundle(f"The code cannot be unpacked: {error}.") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return files


def _extract(data: bytes, target: Path) -> int:
    size_bytes = files = 0
    with gzip.open(io.BytesIO(data)) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
        for member in archive:
            size_bytes += member.size
            files += 1
            if size_bytes > _MAX_UNPACKED_BYTES or files > _MAX_FILES:
                raise InvalidBundle(
                    f"The code unpacks to more than {_MAX_UNPACKED_BYTES // 2**20} MiB or {_MAX_FILES} files."
                )
            if member.name.startswith("/"):
                raise InvalidBundle(f"The code holds an absolute path: {member.name}")
            # The filter refuses `..`, links that lead out, devices, and drops odd permissions.
            archive.extract(member, target, filter="data")
        # The end of the stream carries its checksum, which tells a cut-off archive from a whole one.
        while size_bytes <= _MAX_UNPACKED_BYTES and (padding := stream.read(1 << 20)):
            size_bytes += len(padding)
    return files
