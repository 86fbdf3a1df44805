"""Folders on this machine and datasets on a server: linked, synced, cloned; and files put or removed from anywhere."""

import glob
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nearline._http import Http
from nearline.content.errors import ContentError
from nearline.content.expressions import BadExpression, Expression, TooCostly
from nearline.content.folders import walk_folders
from nearline.content.paths import check_path, to_bytes
from nearline.errors import Conflict, Failed, InvalidRequest, NotFound
from nearline.models import Dataset
from nearline.resources.datasets import Datasets
from nearline.resources.references import OutputReference, Reference, TreeReference, is_same_server
from nearline.resources.storage_routes import SyncRoutes, TreeRoutes
from nearline.transfer.foreign import dvc, hugging_face, lfs
from nearline.transfer.foreign.adoption import Adoption, check_digests
from nearline.transfer.local.sharing import Donor
from nearline.transfer.local.walk import Skipped
from nearline.transfer.local.workspace import FOLDER_NAME, Link, Workspace
from nearline.transfer.progress import OnProgress, ignore_progress
from nearline.transfer.remote.retry import transfer_policy
from nearline.transfer.remote.server import Server
from nearline.transfer.sync import put, status, sync
from nearline.transfer.sync.options import Options
from nearline.transfer.sync.status import Comparison
from nearline.transfer.sync.sync import Outcome

__all__ = ["Comparison", "Folder", "Folders", "Outcome", "find_folder", "get_folder", "list_folders"]

_READERS: Mapping[str, Callable[[Path], Adoption]] = {
    "dvc": dvc.read_repository,
    "hf": hugging_face.read_folder,
    "lfs": lfs.read_repository,
}
_WRITTEN = ("dvc", "hf", "lfs")
_OWN_NAMES = {FOLDER_NAME, ".cnvrg"}
_DISK_RESERVE = 0.05
_SCAN_DEPTH = 3


@dataclass(frozen=True)
class Folder:
    """A folder that is linked to a dataset."""

    workspace: Workspace

    @property
    def root(self) -> Path:
        """The folder itself."""
        return self.workspace.root

    @property
    def url(self) -> str:
        """The server that the dataset is on."""
        return self.workspace.link.url

    @property
    def reference(self) -> Reference:
        """The dataset and the branch that the folder follows."""
        link = self.workspace.link
        return Reference(link.project, link.dataset, link.branch)

    @property
    def branch(self) -> str:
        """The branch that the folder follows."""
        return self.workspace.link.branch

    @property
    def base(self) -> str | None:
        """The commit that the folder was last brought together with; None before the first time."""
        return self.workspace.state.commit

    def switch_branch(self, branch: str) -> None:
        """Follow another branch from now on; the next sync brings both together."""
        self.workspace.switch_branch(branch)

    def to_json(self) -> Mapping[str, Any]:
        """Return what the folder is linked to."""
        return {
            "dataset": self.reference.dataset,
            "branch": self.branch,
            "commit": self.base,
            "folder": str(self.root),
            "server": self.url,
        }


def find_folder(start: Path | str) -> Folder | None:
    """Return the linked folder that `start` is or lies in."""
    workspace = Workspace.find(Path(start))
    return Folder(workspace) if workspace else None


def list_folders(start: Path | str, *, depth: int = _SCAN_DEPTH) -> Iterator[Folder]:
    """Yield the linked folders from `start` to `depth` folders below it, by name; none inside of another one."""
    start = Path(start)
    workspace = Workspace(start)
    if workspace.is_linked:
        yield Folder(workspace)
    elif depth:
        try:
            names = sorted(entry.name for entry in os.scandir(start) if entry.is_dir(follow_symlinks=False))
        except OSError:  # not readable for this person, or removed meanwhile
            return
        for name in names:
            yield from list_folders(start / name, depth=depth - 1)


def get_folder(start: Path | str) -> Folder:
    """Return the linked folder that `start` is or lies in. Raises InvalidRequest when there is none."""
    folder = find_folder(start)
    if folder is None:
        raise InvalidRequest(
            f"'{Path(start).absolute()}' is linked to no dataset.",
            code="client.not_linked",
            hint="Run `nearline data init` to make a dataset of it, or `nearline data link PROJECT/NAME`.",
        )
    return folder


class Folders:
    """Brings folders and datasets together. `parallel` is how many transfers run at the same time.

    `allow_collisions` commits names also where they differ only in case or Unicode form.
    """

    def __init__(self, http: Http) -> None:
        self._http = http
        self._datasets = Datasets(http)

    def require_linkable(self, root: Path | str) -> None:
        """Raise Failed where a folder cannot be linked, before a dataset is made for it."""
        Workspace.require_linkable(Path(root))

    def link(self, root: Path | str, dataset: str | Reference, *, branch: str = "main") -> Folder:
        """Link a folder to a dataset that exists. No file changes.

        A dataset or server that has only got another name or address is gone on with from the commit of the folder.
        """
        target = self._datasets.parse(dataset)
        link = Link(url=self._http.url, project=target.project, dataset=target.name, branch=branch)
        return Folder(Workspace.create(Path(root), link, lambda commit: self._has_commit(target, commit)))

    def _has_commit(self, target: Reference, commit: str) -> bool:
        try:
            self._datasets.get_commit(Reference(target.project, target.name, commit))
        except NotFound:
            return False
        return True

    def sync(
        self,
        folder: Folder,
        *,
        message: str = "",
        force: bool = False,
        new_branch: bool = False,
        allow_collisions: bool = False,
        parallel: int | None = None,
        progress: OnProgress = ignore_progress,
    ) -> Outcome:
        """Fetch, merge, upload, and make at most one commit. With `force` the dataset becomes what the folder is."""
        server = self._server_of(folder)
        with _as_client_errors():
            options = self._options(parallel, progress, allow_collisions=allow_collisions)
            if new_branch and (unchanged := _start_branch(folder, server, options)):
                return unchanged
            return sync.sync_folder(folder.workspace, server, message=message, force=force, options=options)

    def upload(
        self,
        folder: Folder,
        *,
        message: str = "",
        force: bool = False,
        new_branch: bool = False,
        allow_collisions: bool = False,
        parallel: int | None = None,
        progress: OnProgress = ignore_progress,
    ) -> Outcome:
        """Commit what is new here without touching the folder."""
        server = self._server_of(folder)
        with _as_client_errors():
            options = self._options(parallel, progress, allow_collisions=allow_collisions)
            if new_branch and (unchanged := _start_branch(folder, server, options)):
                return unchanged
            return sync.upload_folder(folder.workspace, server, message=message, force=force, options=options)

    def download(
        self,
        folder: Folder,
        *,
        ref: str | None = None,
        parallel: int | None = None,
        progress: OnProgress = ignore_progress,
    ) -> Outcome:
        """Bring the branch's newest commit here, or that of `ref`; what was changed here stays."""
        with _as_client_errors():
            options = self._options(parallel, progress)
            return sync.download_folder(folder.workspace, self._server_of(folder), ref=ref, options=options)

    def status(self, folder: Folder, *, progress: OnProgress = ignore_progress) -> Comparison:
        """Say what changed here since the last sync, and whether others committed since."""
        with _as_client_errors():
            return status.get_status(folder.workspace, self._server_of(folder), self._options(None, progress))

    def compare(self, folder: Folder, ref: str, *, progress: OnProgress = ignore_progress) -> Comparison:
        """Say how the folder differs from any commit of its dataset, by branch, tag or id."""
        with _as_client_errors():
            options = self._options(None, progress)
            return status.compare_folder(folder.workspace, self._server_of(folder), ref, options)

    def verify(self, folder: Folder, *, progress: OnProgress = ignore_progress) -> Comparison:
        """Read every file and compare it with the commit that was synced last."""
        with _as_client_errors():
            return status.verify_folder(folder.workspace, self._server_of(folder), self._options(None, progress))

    def clone(
        self,
        dataset: str | TreeReference,
        into: Path | str,
        *,
        link: bool = True,
        cached_copy: Path | str | None = None,
        parallel: int | None = None,
        progress: OnProgress = ignore_progress,
    ) -> Outcome:
        """Bring a commit into a new folder; a clone that was broken off goes on. Raises Conflict when it is in use.

        What a query selects is never linked: a sync would take the other files for new ones. Nor is an output
        (`run:RUN/STEP`, `job:NAME`), which has no branch. Files that `cached_copy`
        has are taken from there, by a reflink or a hard link where that can be; all are compared with their hashes.
        """
        target, options = self._datasets.parse_tree(dataset), self._options(parallel, progress)
        if isinstance(target, OutputReference):
            return self._clone_output(target, Path(into), options)
        return self._clone(target, Path(into), options, link=link, cached_copy=cached_copy)

    def _clone_output(self, target: OutputReference, into: Path, options: Options) -> Outcome:
        output = self._datasets.get_output(target)
        _check_free_space(into, output.size_bytes)
        workspace = Workspace(into.absolute())
        if workspace.is_linked or workspace.cloned_root != output.root:
            _check_is_new(into)
            workspace.begin_clone(output.root)
        with _as_client_errors():
            outcome = sync.download_tree(workspace, TreeRoutes(self._http, output.tree), output.root, options=options)
        shutil.rmtree(workspace.home)
        return outcome

    def _clone(
        self, target: Reference, into: Path, options: Options, *, link: bool, cached_copy: Path | str | None = None
    ) -> Outcome:
        if target.query:
            target, link = replace(target, ref=self._datasets.select(target).id), False
        server = SyncRoutes(self._http, target)
        heads = {branch.name: branch.head for branch in server.list_branches()}
        branch = target.ref if target.ref in heads else None
        ref = None if branch else target.ref
        branch = branch or self._datasets.get(target).default_branch
        if ref or heads.get(branch):
            _check_free_space(into, server.get_commit(ref or branch).size_bytes)
        folder = self._folder_for_clone(into, target, branch)
        with _as_client_errors():
            donor = Donor(os.fsencode(cached_copy), may_link=os.geteuid() != 0) if cached_copy is not None else None
            outcome = sync.download_folder(folder.workspace, server, ref=ref, options=replace(options, donor=donor))
        if not link:
            shutil.rmtree(folder.workspace.home)
        return replace(outcome, shared=dict(donor.shared)) if donor else outcome

    def put(
        self,
        dataset: str | Reference,
        files: Path | str | Sequence[Path | str],
        *,
        directory: str = "",
        message: str = "",
        only: bool = False,
        allow_collisions: bool = False,
        parallel: int | None = None,
        progress: OnProgress = ignore_progress,
    ) -> Outcome:
        """Commit files and folders under `directory`; with `only`, the commit holds no others."""
        target = self._datasets.parse(dataset)
        with _as_client_errors():
            place = to_bytes(directory.strip("/"))
            if place:
                check_path(place)
            skipped: list[Skipped] = []
            sources = [files] if isinstance(files, (Path, str)) else files
            files_by_path = put.list_files(_spread(list(map(Path, sources))), place, skipped)
            return put.put_files(
                SyncRoutes(self._http, target),
                self._branch_of(target),
                files_by_path,
                message=message,
                only=only,
                skipped=skipped,
                options=self._options(parallel, progress, allow_collisions=allow_collisions),
            )

    def adopt(
        self,
        dataset: str | Reference,
        source: str,
        path: Path | str,
        *,
        directory: str = "",
        message: str = "",
        only: bool = False,
        allow_collisions: bool = False,
        parallel: int | None = None,
        progress: OnProgress = ignore_progress,
    ) -> Outcome:
        """Commit what another tool keeps at `path`; a missing dataset is made.

        `source`: `dvc` (a repository), `hf` (a dataset of Hugging Face) or `lfs` (git with git-LFS). All files are
        compared with the hashes that the tool knows first. Raises Failed, naming files that are missing or damaged.
        """
        target = self._datasets.parse(dataset)
        _check_tool(source, _READERS)
        options = self._options(parallel, progress, allow_collisions=allow_collisions)
        with _as_client_errors():
            prefix = to_bytes(directory.strip("/"))
            if prefix:
                check_path(prefix)
            repository = _READERS[source](Path(path))
            check_digests(repository, threads=options.threads, on_progress=progress)
            known = self.ensure(target, repository.description)
            start = prefix + b"/" if prefix else b""
            return put.put_files(
                SyncRoutes(self._http, target),
                target.ref or known.default_branch,
                {start + name: place for name, place in repository.files.items()},
                message=message,
                only=only,
                skipped=[skip._replace(path=start + skip.path) for skip in repository.skipped],
                options=options,
            )

    def export(
        self,
        dataset: str | Reference,
        target_format: str,
        into: Path | str,
        *,
        parallel: int | None = None,
        progress: OnProgress = ignore_progress,
    ) -> Outcome:
        """Write a commit into a new folder as another tool keeps it.

        `dvc` and `lfs` are repositories, the second of git with one commit; `hf` are the files and a card.

        What fails leaves nothing in the folder. Raises Conflict when something is in it, and InvalidRequest for files
        that the tool cannot keep, before any is fetched.
        """
        target, options = self._datasets.parse(dataset), self._options(parallel, progress)
        _check_tool(target_format, _WRITTEN)
        with _filled_at_the_end(Path(into)) as folder:
            if target_format == "dvc":
                options = replace(options, check=dvc.check_entries)
                outcome = self._clone(target, folder / target.name, options, link=False)
                dvc.write_repository(folder, target.name)
            elif target_format == "lfs":
                commit = self._datasets.select(target) if target.query else self._datasets.get_commit(target)
                options, target = replace(options, check=lfs.check_entries), replace(target, ref=commit.id)
                outcome = self._clone(target, folder, options, link=False)
                lfs.write_repository(
                    folder,
                    author=commit.author,
                    seconds=int(commit.created_at.timestamp()),
                    message=commit.message or f"{target.name}, {commit.short}",
                )
            else:
                outcome = self._clone(target, folder, options, link=False)
                hugging_face.write_card(folder, target.name, self._datasets.get(target).description)
        return outcome

    def ensure(self, target: Reference, description: str = "") -> Dataset:
        """Return a dataset, which is made where it is missing; a description is given to one that has none."""
        try:
            known = self._datasets.get(target)
        except NotFound:
            try:
                return self._datasets.create(target, description=description)
            except Conflict:
                known = self._datasets.get(target)  # another command has made it meanwhile
        if description and not known.description:
            return self._datasets.describe(target, description)
        return known

    def find(self, dataset: str | Reference, patterns: str | Sequence[str]) -> list[str]:
        """Return the paths that patterns mean: paths, folders with all that is in them, or wildcards.

        Raises InvalidRequest for an empty one.
        """
        patterns = [patterns] if isinstance(patterns, str) else patterns
        if "" in patterns:
            raise InvalidRequest("A pattern is empty.", hint="'**' is every file.")
        target = self._datasets.parse(dataset)
        forms = dict.fromkeys(form for pattern in patterns for form in _forms(pattern))
        return sorted({file.path for form in forms for file in self._datasets.list_files(target, glob=form)})

    def find_by_expressions(self, dataset: str | Reference, expressions: Sequence[str]) -> list[str]:
        """Return the paths that regular expressions match as a whole; `DIR/` and `DIR/*` mean all in the folder.

        They are matched here, against the newest commit of the branch. Raises InvalidRequest for what is no
        expression, or takes too many steps.
        """
        target = self._datasets.parse(dataset)
        matchers = [_compile(text) for text in expressions]
        try:
            with _as_client_errors():
                return put.find_paths(
                    SyncRoutes(self._http, target),
                    self._branch_of(target),
                    lambda path: any(matches(path) for matches in matchers),
                    options=self._options(None, ignore_progress),
                )
        except TooCostly as error:
            raise InvalidRequest(str(error), code="client.bad_expression") from error

    def remove(
        self,
        dataset: str | Reference,
        paths: str | Sequence[str],
        *,
        message: str = "",
        progress: OnProgress = ignore_progress,
    ) -> Outcome:
        """Commit the removal of these paths."""
        target = self._datasets.parse(dataset)
        with _as_client_errors():
            return put.remove_files(
                SyncRoutes(self._http, target),
                self._branch_of(target),
                [to_bytes(path) for path in ([paths] if isinstance(paths, str) else paths)],
                message=message,
                options=self._options(None, progress),
            )

    def _options(self, parallel: int | None, progress: OnProgress, *, allow_collisions: bool = False) -> Options:
        policy = transfer_policy(self._http.policy.on_wait)
        options = Options(policy=policy, on_progress=progress, allow_collisions=allow_collisions)
        if parallel is None:
            return options
        if parallel < 1:
            raise InvalidRequest(f"{parallel} transfers cannot run at the same time: `parallel` is 1 or more.")
        return replace(options, threads=parallel)

    def _server_of(self, folder: Folder) -> Server:
        if not is_same_server(folder.url, self._http.url):
            raise InvalidRequest(
                f"This folder is linked to {folder.reference.dataset} on {folder.url}, not on {self._http.url}.",
                hint=f"Use `nearline --url {folder.url}`, or link it anew: "
                f"`nearline data set --url {folder.reference.dataset}`.",
            )
        return SyncRoutes(self._http, folder.reference)

    def _branch_of(self, target: Reference) -> str:
        return target.ref or self._datasets.get(target).default_branch

    def _folder_for_clone(self, into: Path, target: Reference, branch: str) -> Folder:
        there = Workspace(into.absolute())
        if there.is_linked:
            if Folder(there).reference.dataset != target.dataset:
                raise Conflict(
                    f"'{into}' is linked to {Folder(there).reference.dataset}.", hint="Choose another folder."
                )
        else:
            _check_is_new(into)
        return self.link(into.absolute(), target, branch=branch)


@contextmanager
def _as_client_errors() -> Iterator[None]:
    """Let content that cannot be carried or trusted be an error of the same family as all others."""
    try:
        yield
    except ContentError as error:
        raise InvalidRequest(str(error), code=error.code, hint=error.hint) from error


def _check_tool(name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise InvalidRequest(f"'{name}' is none of {', '.join(known)}.")


def _check_is_new(into: Path) -> None:
    """Raise Conflict for a folder that is linked, or holds more than what a killed export left there."""
    others = [each for each in into.iterdir() if each.name != FOLDER_NAME] if into.is_dir() else into.exists()
    if others or into.is_symlink() or Workspace(into).is_linked:
        raise Conflict(f"'{into}' is there already.", hint="Choose another folder, or an empty one.")


@contextmanager
def _filled_at_the_end(into: Path) -> Iterator[Path]:
    """Yield an empty folder, whose content moves into a new folder once all of it is there.

    What fails, or was killed, is not in the way of the next.
    """
    _check_is_new(into)
    was_there = into.exists()
    workspace = Workspace(into)
    with workspace.lock():
        folder = workspace.home / "export"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            yield folder
            for each in folder.iterdir():
                each.rename(into / each.name)
        finally:
            shutil.rmtree(workspace.home)
            if not was_there and not any(into.iterdir()):
                into.rmdir()


def _start_branch(folder: Folder, server: Server, options: Options) -> Outcome | None:
    """Make a branch for what changed here, and follow it; where nothing changed, say so and leave all as it is."""
    if folder.base is None:
        raise InvalidRequest("A new branch needs a commit to start at.", hint="Run `nearline data sync` first.")
    folder_status = status.get_status(folder.workspace, server, options)
    if not (folder_status.added or folder_status.changed or folder_status.removed):
        return Outcome(skipped=folder_status.skipped)
    # Two folders may start one in the same second.
    name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"
    server.create_branch(name, folder.base)
    folder.switch_branch(name)
    return None


def _check_free_space(into: Path, size_bytes: int) -> None:
    parent = next(folder for folder in (into.absolute(), *into.absolute().parents) if folder.exists())
    usage = shutil.disk_usage(parent)
    available = max(0, usage.free - int(usage.total * _DISK_RESERVE))
    if available >= size_bytes:
        return
    # What a clone that was broken off has brought needs no space again. Looked for only where it decides.
    missing = size_bytes - _measure(into)
    if available < missing:
        raise Failed(
            f"There is not enough free space for {missing:,} bytes in '{parent}': {available:,} are free beside the "
            f"{_DISK_RESERVE:.0%} of the disk that a clone leaves free.",
            code="client.disk_full",
            hint="Take another disk, or share the files of a cached copy: `nearline data clone --link`.",
        )


def _measure(folder: Path) -> int:
    size_bytes = 0
    for path, folders, names in walk_folders(os.fspath(folder)):
        folders[:] = [name for name in folders if name != FOLDER_NAME]
        size_bytes += sum(Path(path, name).lstat().st_size for name in names)
    return size_bytes


def _spread(files: Sequence[Path]) -> list[Path]:
    """Replace the folder one stands in by what lies in it, as people mean it who write a dot."""
    here = Path.cwd()
    spread: list[Path] = []
    for file in files:
        inside = sorted(file.iterdir()) if file.is_dir() and file.resolve() == here else [file]
        spread += [path for path in inside if path.name not in _OWN_NAMES]
    return spread


def _compile(text: str) -> Callable[[str], bool]:
    folder = text.removesuffix("*")
    if folder.endswith("/"):
        return lambda path: path.startswith(folder)
    try:
        return Expression(text, is_whole=True).matches
    except BadExpression as error:
        raise InvalidRequest(
            f"'{text}' is no regular expression that can be used. {error}",
            code="client.bad_expression",
            hint="`.*` stands for any text and `\\.` for a dot, as in 'train/.*\\.png'.",
        ) from error


def _forms(pattern: str) -> Iterator[str]:
    plain = pattern.rstrip("/")
    yield pattern
    yield f"{plain}/**"
    if glob.has_magic(plain):
        # A file may be called what reads like a pattern.
        yield glob.escape(plain)
