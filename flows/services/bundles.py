"""The code that comes with a flow: a tar.gz of its folder, kept by hash and unpacked once, for jobs to copy from."""

import hashlib
import secrets
import shutil
from pathlib import Path

from django.conf import settings
from django.db import transaction

from accounts import audit
from accounts.actor import Actor
from accounts.models import Project
from accounts.permissions import require
from experiments.adapters.artifact_folder import artifact_store
from flows import permissions
from flows.adapters import code_archive
from flows.adapters.sealed_folder import SealedFolder
from flows.errors import BundleNotFound, InvalidBundle
from flows.models import Bundle

MAX_BYTES = 20 * 2**20


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
    folder, sealed = _folder(sha256), sealed_folder(sha256)
    if folder.exists() and sealed.compare().paths:
        # A job without a sandbox changed it. Whoever copies from it at this moment fails, as its step would anyway.
        shutil.rmtree(folder)
    if not folder.exists():
        bundle = Bundle.objects.filter(sha256=sha256).first()
        if bundle is None:
            raise BundleNotFound(f"There is no code with the hash {sha256[:12]}.")
        sealed.forget()
        _unpack(b"".join(artifact_store().read(bundle.content_hash)), sha256)
    sealed.seal()
    return folder


def sealed_folder(sha256: str) -> SealedFolder:
    """Return the evidence by which a change of the unpacked code is found."""
    folder = _folder(sha256)
    return SealedFolder(folder, folder.with_name(f".{sha256}.seal"))


def _folder(sha256: str) -> Path:
    return Path(settings.NEARLINE.home).absolute() / "code" / sha256


def _unpack(data: bytes, sha256: str) -> int:
    """Unpack beside the target and rename, so that a folder that is there is whole; return the number of files."""
    target = _folder(sha256)
    draft = target.with_name(f".{sha256[:12]}-{secrets.token_hex(4)}")
    draft.mkdir(parents=True)
    try:
        files = code_archive.unpack(data, draft)
        try:
            draft.rename(target)
        except OSError:
            if not target.is_dir():  # else the same bytes are unpacked already
                raise
        else:
            sealed_folder(sha256).seal_again()
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return files
