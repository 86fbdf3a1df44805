"""Keeping the code of an example flow for a project."""

import gzip
import io
import tarfile
from pathlib import Path

from accounts.actor import Actor
from accounts.models import Project
from flows.models import Bundle
from flows.selectors.examples import FILE, get_example
from flows.services import bundles


def save_code(*, actor: Actor, project: Project, name: str) -> Bundle:
    """Keep the code of an example for flows of a project; again gives the same bundle. Raises ExampleNotFound."""
    return bundles.save_bundle(actor=actor, project=project, data=_pack(get_example(name).folder))


def _pack(folder: Path) -> bytes:
    """Return a tar.gz that is the same for the same files: no times, no owners, in the order of the names."""
    archive = io.BytesIO()
    with gzip.GzipFile(fileobj=archive, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            is_code = path.is_file() and path.name != FILE and "__pycache__" not in path.parts
            if is_code:
                entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
                entry.size, entry.mode = path.stat().st_size, 0o644
                tar.addfile(entry, io.BytesIO(path.read_bytes()))
    return archive.getvalue()
