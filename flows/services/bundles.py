"""The code that comes with a flow: a tree of its project's store, held as long as a version of a flow may need it."""

import gzip
import hashlib
import io
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from accounts import audit
from accounts.models import Project
from accounts.permissions import Actor, require
from core import clock
from core.units import count_of, format_bytes
from datasets.services import trees
from datasets.services.trees import SourceFile, StoredTree, UploadSession
from flows import permissions
from flows.adapters import code_archive
from flows.errors import BundleNotFound, InvalidBundle
from flows.models import Bundle, FlowVersion
from flows.selectors.examples import FILE, get_example

MAX_BYTES = 2 * 2**30
MAX_FILES = 1_000_000
MAX_ARCHIVE_BYTES = 20 * 2**20
# The same files are the same tree whenever they were written. Archives of some kinds hold no time before 1980.
FILE_TIME_NS = 315_619_200 * 10**9
_MOST_KNOWN = 4


@dataclass(frozen=True)
class CodeUpload:
    """An upload of code. What the trees under `known_roots` hold need not be sent again."""

    upload: UploadSession
    known_roots: Sequence[str]


def start_upload(*, actor: Actor, project: Project, client_id: str) -> CodeUpload:
    """Begin to upload the tree of a folder of code."""
    require(actor, permissions.PUSH_FLOW, project.pk)
    newest = (
        FlowVersion.objects.filter(flow__project=project, flow__deleted_at=None)
        .exclude(bundle="")
        .order_by("-created_at", "-pk")
    )
    names = list(dict.fromkeys(newest.values_list("bundle", flat=True)[: 10 * _MOST_KNOWN]))[:_MOST_KNOWN]
    roots = Bundle.objects.filter(project=project, sha256__in=names).exclude(root="").values_list("root", flat=True)
    return CodeUpload(trees.start_upload(actor=actor, project=project, client_id=client_id), sorted(set(roots)))


def save_tree(*, actor: Actor, upload: UploadSession, root: str) -> Bundle:
    """Keep an uploaded tree as code for flows of its project; the same tree gives the same bundle.

    Raises InvalidBundle for one that is too large, InvalidInput for an upload to a dataset, and what
    `trees.check_upload` raises.
    """
    project = upload.dataset.project
    require(actor, permissions.PUSH_FLOW, project.pk)
    # Asked again after a lost answer, or with code that the project has.
    if upload.dataset.is_internal and (known := _touch(project, root)) is not None:
        return known
    checked = trees.check_upload(actor=actor, upload=upload, root=root)
    _check_size(checked.files, checked.size_bytes)
    bundle = _begin(project, root)
    tree = trees.hold_upload(actor=actor, upload=upload, root=root, holder=bundle.holder)
    return _finish(actor, bundle, tree, tree.size_bytes)


def save_bundle(*, actor: Actor, project: Project, data: bytes) -> Bundle:
    """Keep a tar.gz of a folder, as older clients send it; the same bytes give the same bundle.

    Raises InvalidBundle.
    """
    require(actor, permissions.PUSH_FLOW, project.pk)
    if len(data) > MAX_ARCHIVE_BYTES:
        raise InvalidBundle(f"The code is larger than {MAX_ARCHIVE_BYTES // 2**20} MiB.")
    sha256 = hashlib.sha256(data).hexdigest()
    if (known := _touch(project, sha256)) is not None:
        return known
    with tempfile.TemporaryDirectory(prefix="nearline-code-") as folder:
        code_archive.unpack(data, Path(folder))
        bundle = _begin(project, sha256)
        tree = store_folder(actor=actor, bundle=bundle, folder=Path(folder))
    return _finish(actor, bundle, tree, len(data))


def save_example_code(*, actor: Actor, project: Project, name: str) -> Bundle:
    """Keep the code of an example for flows of a project; again gives the same bundle. Raises ExampleNotFound."""
    return save_bundle(actor=actor, project=project, data=_pack(get_example(name).folder))


def store_folder(*, actor: Actor, bundle: Bundle, folder: Path) -> StoredTree:
    """Store the files of a folder as the tree that a bundle holds."""
    require(actor, permissions.PUSH_FLOW, bundle.project_id)
    return trees.store_tree(actor=actor, project=bundle.project, holder=bundle.holder, files=_list_files(folder))


def check_bundle(*, actor: Actor, project: Project, sha256: str) -> None:
    """Raise BundleNotFound unless the project has that code. It stays for a day from now."""
    require(actor, permissions.PUSH_FLOW, project.pk)
    if _touch(project, sha256) is None:
        raise BundleNotFound(f"{project.name} has no code with the hash {sha256[:12]}.")


def _begin(project: Project, sha256: str) -> Bundle:
    """Create the row before anything is held for it, so that nothing stays held without one."""
    return Bundle.objects.get_or_create(project=project, sha256=sha256, defaults={"size_bytes": 0, "files": 0})[0]


def _finish(actor: Actor, bundle: Bundle, tree: StoredTree, size_bytes: int) -> Bundle:
    is_new = not bundle.root
    bundle.root, bundle.dataset_id, bundle.files = tree.root, tree.dataset_id, tree.files
    bundle.size_bytes, bundle.touched_at = size_bytes, clock.now()
    bundle.save()
    if is_new:
        audit.record(actor, "flows.save_bundle", bundle, size_bytes=size_bytes)
    return bundle


def _touch(project: Project, sha256: str) -> Bundle | None:
    """Return a bundle that is complete, after putting it out of the cleaning's reach for a day."""
    rows = Bundle.objects.filter(project=project, sha256=sha256).exclude(root="", content_hash="")
    return rows.first() if rows.update(touched_at=clock.now()) else None


def _check_size(files: int, size_bytes: int) -> None:
    if size_bytes > MAX_BYTES or files > MAX_FILES:
        raise InvalidBundle(
            f"The code is {format_bytes(size_bytes)} in {count_of(files, 'file')}. "
            f"A flow may bring {format_bytes(MAX_BYTES)} in {count_of(MAX_FILES, 'file')}."
        )


def _pack(folder: Path) -> bytes:
    """Return a tar.gz of a folder that is the same for the same files: no times, no owners, ordered by name."""
    archive = io.BytesIO()
    with gzip.GzipFile(fileobj=archive, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            is_code = path.is_file() and path.name != FILE and "__pycache__" not in path.parts
            if is_code:
                entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
                entry.size, entry.mode = path.stat().st_size, 0o644
                tar.addfile(entry, io.BytesIO(path.read_bytes()))
    return archive.getvalue()


def _list_files(folder: Path) -> Iterator[SourceFile]:
    """Yield the files of a folder in the order of their paths. It holds files and folders only."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in sorted(paths, key=lambda path: bytes(path.relative_to(folder))):
        facts = path.stat()
        mode = 0o755 if facts.st_mode & 0o100 else 0o644
        name = bytes(path.relative_to(folder))
        yield SourceFile(name, mode, facts.st_size, FILE_TIME_NS, partial(_open, path))


def _open(path: Path) -> BinaryIO:
    return path.open("rb")
