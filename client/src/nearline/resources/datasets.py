"""Datasets: their history, files and cached commits. What moves bytes is in `nearline.transfer`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from nearline._http import Http, Json, quoted
from nearline.content.paths import to_bytes
from nearline.errors import Conflict, NotFound
from nearline.models import Branch, CachedCommit, Commit, Dataset, DeletedDataset, File, Import, Output, Query, Tag
from nearline.reading.commit_files import DEFAULT_MEMORY_BYTES, DEFAULT_THREADS, CommitFiles
from nearline.resources import outputs, storage_routes
from nearline.resources.references import (
    OutputReference,
    Reference,
    TreeReference,
    is_output,
    parse_output,
    parse_reference,
)
from nearline.resources.storage_routes import SyncRoutes, TreeRoutes
from nearline.resources.tree_differences import PlacedTree, find_differences
from nearline.settings import read_settings
from nearline.transfer.remote.retry import LONGEST_WAIT_S
from nearline.transfer.remote.server import Storage

LATEST = "latest"


class Datasets:
    """Versioned file trees. Everywhere a dataset is named by `project/dataset[@ref]` or by the address of its page.

    Where files are read, `project/dataset@ref:query` stands for those that a saved query selects, `run:RUN/STEP` for
    what a step of a run left, and `job:NAME` for what a job left.
    """

    def __init__(self, http: Http, *, project: str | None = None) -> None:
        self._http = http
        self._project = project

    def parse(self, reference: str | Reference) -> Reference:
        """Read a reference as this connection understands it. Raises InvalidRequest."""
        if isinstance(reference, Reference):
            return reference
        return parse_reference(reference, project=self._project, url=self._http.url)

    def parse_tree(self, reference: str | TreeReference) -> TreeReference:
        """Read what names files: a dataset, or an output. Raises InvalidRequest."""
        if isinstance(reference, OutputReference) or (isinstance(reference, str) and is_output(reference)):
            return parse_output(reference) if isinstance(reference, str) else reference
        return self.parse(reference)

    def get_output(self, reference: str | OutputReference) -> Output:
        """Return the tree of an output: of the newest try of a step, or of a job.

        Raises NotFound where there is none, it holds no file (`compute.output_empty`), or it was deleted
        (`compute.output_gone`), and Conflict while it is not stored (`compute.output_not_stored`).
        """
        return outputs.get_output(self._http, parse_output(reference) if isinstance(reference, str) else reference)

    def create(self, reference: str | Reference, *, description: str = "", kind: str | None = None) -> Dataset:
        """Make an empty dataset. Raises Conflict when the name is taken."""
        target = self.parse(reference)
        body: Json = {"project": target.project, "name": target.name, "description": description}
        if kind:
            body["kind"] = kind
        return Dataset.read(self._http.post("/datasets", body))

    def get(self, reference: str | Reference) -> Dataset:
        """Return a dataset. Raises NotFound."""
        return Dataset.read(self._http.get(self._path(reference)))

    def foresee_deletion(self, reference: str | Reference) -> int:
        """Return for how many days the dataset can be restored once it is deleted; 0: it cannot. Nothing changes.

        Raises NotFound, and PermissionDenied for those who may not delete it.
        """
        days: int = self._http.get(self._path(reference) + "/deletion")["restore_days"]
        return days

    def delete(self, reference: str | Reference, *, for_good: bool = False) -> DeletedDataset:
        """Remove a dataset with its whole history; the answer says until when it can be restored.

        Only an admin of its project may delete and restore.
        """
        return DeletedDataset.read(self._http.delete(self._path(reference), for_good=for_good or None))

    def list_deleted(self, *, project: str | None = None) -> Iterator[DeletedDataset]:
        """Yield the deleted datasets that you may restore, the newest dataset first."""
        return map(DeletedDataset.read, self._http.list_items("/deleted-datasets", project=project))

    def get_deleted(self, reference: str | Reference) -> DeletedDataset:
        """Return a deleted dataset that you may restore, by its id or by what named it.

        Raises NotFound, and Conflict where several had the name.
        """
        if isinstance(reference, str) and reference.startswith("ds_"):
            matches = [item for item in self.list_deleted() if item.id == reference]
        else:
            target = self.parse(reference)
            matches = [item for item in self.list_deleted(project=target.project) if item.name == target.name]
        if not matches:
            raise NotFound(
                f"There is no deleted dataset {reference} that you may restore.",
                hint="`nearline data deleted` lists them.",
            )
        if len(matches) > 1:
            ids = ", ".join(f"{item.id} (deleted {item.deleted_at:%Y-%m-%d %H:%M} UTC)" for item in matches)
            raise Conflict(f"Several deleted datasets were called {reference}: {ids}.", hint="Give the id of one.")
        return matches[0]

    def restore(self, reference: str | Reference, *, name: str | None = None) -> Dataset:
        """Bring back a deleted dataset, by another name where one is given. Raises Conflict when the name is taken."""
        deleted = self.get_deleted(reference)
        return Dataset.read(self._http.post(f"/deleted-datasets{quoted(deleted.id)}/restore", {"name": name or ""}))

    def delete_for_good(self, reference: str | Reference) -> None:
        """Delete a dataset for good that was deleted and could still be restored."""
        self._http.delete(f"/deleted-datasets{quoted(self.get_deleted(reference).id)}")

    def list_commits(self, reference: str | Reference, *, limit: int | None = None) -> Iterator[Commit]:
        """Yield the commits up to the reference, newest first."""
        target = self.parse(reference)
        ref = self._ref_of(target) if target.ref else None
        commits = self._http.list_items(self._path(target) + "/commits", limit=limit, ref=ref)
        try:
            yield from map(Commit.read, commits)
        except NotFound as error:
            if error.code != "datasets.empty_branch":
                raise

    def get_damage(self, reference: str | Reference) -> Json:
        """Return which packs are damaged in the store, and which files of the commit need them."""
        target = self.parse(reference)
        return self._http.get(self._path(target) + "/damage", ref=self._ref_of(target))

    def get_commit(self, reference: str | Reference) -> Commit:
        """Return the commit that a reference means; that of the default branch where it names none."""
        target = self.parse(reference)
        return Commit.read(self._http.get(self._path(target) + "/commits" + quoted(self._ref_of(target))))

    def list_folder(self, reference: str | TreeReference, path: str = "") -> Iterator[File]:
        """Yield what lies directly in a folder of a commit, or of an output."""
        place, ref = self._place_of(reference)
        return map(File.read, self._http.list_items(place + "/files", **ref, path=path))

    def list_files(
        self, reference: str | TreeReference, *, glob: str = "**", limit: int | None = None
    ) -> Iterator[File]:
        """Yield the files of a commit, or of an output, whose path matches, in the order of their paths."""
        place, ref = self._place_of(reference)
        return map(File.read, self._http.list_items(place + "/files", limit=limit, **ref, glob=glob))

    def open(self, reference: str | TreeReference, path: str) -> AbstractContextManager[Iterator[bytes]]:
        """Open one file as a stream of pieces."""
        place, ref = self._place_of(reference)
        return self._http.stream(place + "/content", **ref, path=path)

    def open_commit(
        self,
        reference: str | TreeReference,
        *,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        threads: int = DEFAULT_THREADS,
        max_wait_s: float = LONGEST_WAIT_S,
    ) -> CommitFiles:
        """Open a commit, or an output, whose files are read from the store as they are asked for.

        What a branch or tag means, or the newest try of a step, is decided now. At most `memory_bytes` of content are
        kept in memory. A read waits for at most `max_wait_s` while the store is away, and then raises Unavailable.
        """
        tree, connect = self._find_tree(reference)
        return CommitFiles(tree, connect, memory_bytes=memory_bytes, threads=threads, max_wait_s=max_wait_s)

    def compare(self, base: str | TreeReference, other: str | TreeReference) -> Json:
        """Return what differs between two trees, each a commit or an output: counts, and all changed paths."""
        trees = map(self._find_tree, (base, other))
        old, new = (PlacedTree(tree.root, _open(self._http, connect.place)) for tree, connect in trees)
        return find_differences(old, new)

    def diff(self, reference: str | Reference, base: str, ref: str) -> Json:
        """Return what differs between two commits: counts, and all changed paths.

        `base` may be of another dataset: `project/dataset@ref`.
        """
        route = self._path(reference) + "/diff"
        answer = self._http.get(route, base=base, ref=ref)
        while cursor := answer.get("next_cursor"):
            page = self._http.get(route, base=base, ref=ref, cursor=cursor)
            answer = {**answer, "items": [*answer["items"], *page["items"]], "next_cursor": page.get("next_cursor")}
        return answer

    def revert(self, reference: str | Reference, commit: str, *, branch: str, message: str = "") -> Commit:
        """Make a new commit on a branch with the files of an older one."""
        body = {"commit": commit, "branch": branch, "message": message}
        return Commit.read(self._http.post(self._path(reference) + "/revert", body))

    def plan_merge(self, reference: str | Reference, source: str) -> Json:
        """Return what a merge of `source` into a branch would do, with all files that both changed."""
        target = self.parse(reference)
        route = self._path(target) + "/merge"
        answer = self._http.get(route, source=source, into=target.ref)
        while cursor := answer.get("next_cursor"):
            page = self._http.get(route, source=source, into=target.ref, cursor=cursor)
            answer = {**answer, "items": [*answer["items"], *page["items"]], "next_cursor": page.get("next_cursor")}
        return answer

    def merge(
        self,
        reference: str | Reference,
        source: str,
        *,
        choices: Mapping[str, str] | None = None,
        otherwise: str | None = None,
        message: str = "",
        allow_collisions: bool = False,
    ) -> Commit:
        """Bring what `source` (a branch, tag or commit) has to the branch of the reference, by one commit.

        `choices` says of paths that both changed whose version stays: `ours`, `theirs`, or `both`, which puts theirs
        beside ours as `NAME.conflict`; `otherwise` says it of all others. Raises Conflict: `datasets.merge_conflicts`
        while a file has no choice, `datasets.nothing_to_merge`, `datasets.stale_parent`.
        """
        target = self.parse(reference)
        body = {
            "source": source,
            "into": target.ref or self.get(target).default_branch,
            "choices": [{"id": to_bytes(path).hex(), "keep": keep} for path, keep in (choices or {}).items()],
            "otherwise": otherwise,
            "message": message,
            "allow_collisions": allow_collisions,
        }
        return Commit.read(self._http.post(self._path(target) + "/merge", body))

    def import_in_place(
        self, reference: str | Reference, source: str, prefix: str = "", *, directory: str = "", message: str = ""
    ) -> Import:
        """Have files of a source imported where they lie, to the branch of the reference, by one commit.

        The server reads each file once and copies none; `client.sources.wait` returns when that is done.
        """
        target = self.parse(reference)
        body = {"source": source, "prefix": prefix, "directory": directory, "message": message}
        return Import.read(self._http.post(self._path(target) + "/imports", {**body, "branch": target.ref or ""}))

    def list_imports(self, reference: str | Reference) -> Iterator[Import]:
        """Yield the imports in place into a dataset, newest first."""
        return map(Import.read, self._http.list_items(self._path(reference) + "/imports"))

    def rename_path(self, reference: str | Reference, path: str, to: str, *, message: str = "") -> Commit:
        """Commit another path for a file, or for a folder with all that is in it. No content is moved."""
        target = self.parse(reference)
        route = self._path(target) + "/files/rename"
        answer = self._http.post(route, path=path, to=to, branch=target.ref, message=message or None)
        return Commit.read(answer)

    def rename(self, reference: str | Reference, name: str) -> Dataset:
        """Give a dataset another name; references by the old one lead nowhere. Raises Conflict when it is taken."""
        return Dataset.read(self._http.patch(self._path(reference), {"name": name}))

    def describe(self, reference: str | Reference, description: str) -> Dataset:
        """Say what is in a dataset."""
        return Dataset.read(self._http.patch(self._path(reference), {"description": description}))

    def list_branches(self, reference: str | Reference) -> list[Branch]:
        """Return the branches by name."""
        return [Branch.read(item) for item in self._http.get(self._path(reference) + "/branches")["items"]]

    def create_branch(self, reference: str | Reference, name: str, *, at: str = LATEST) -> Branch:
        """Start a branch at a commit. Raises Conflict when the name is taken."""
        return Branch.read(self._http.post(self._path(reference) + "/branches", {"name": name, "at": at}))

    def delete_branch(self, reference: str | Reference, name: str) -> None:
        """Remove a branch; its commits stay where other names reach them."""
        self._http.delete(self._path(reference) + "/branches" + quoted(name))

    def list_tags(self, reference: str | Reference) -> list[Tag]:
        """Return the tags by name."""
        return [Tag.read(item) for item in self._http.get(self._path(reference) + "/tags")["items"]]

    def create_tag(self, reference: str | Reference, name: str, *, commit: str = LATEST) -> Tag:
        """Give a commit a name that does not move. Raises Conflict when the name is taken."""
        return Tag.read(self._http.post(self._path(reference) + "/tags", {"name": name, "commit": commit}))

    def delete_tag(self, reference: str | Reference, name: str) -> None:
        """Remove a tag."""
        self._http.delete(self._path(reference) + "/tags" + quoted(name))

    def list_queries(self, reference: str | Reference) -> Iterator[Query]:
        """Yield the saved queries, oldest first."""
        return map(Query.read, self._http.list_items(self._path(reference) + "/queries"))

    def get_query(self, reference: str | Reference, name: str) -> Query:
        """Return a saved query. Raises NotFound."""
        return Query.read(self._http.get(self._path(reference) + "/queries" + quoted(name)))

    def create_query(
        self,
        reference: str | Reference,
        name: str,
        *,
        globs: Sequence[str] = (),
        contains: str = "",
        regex: str = "",
        types: Sequence[str] = (),
        min_size_bytes: int | None = None,
        max_size_bytes: int | None = None,
        file_tags: Sequence[str] = (),
        tags_file: str = "",
    ) -> Query:
        """Save a query. A file is selected that meets all that is asked: one of `globs` and `types`, all `file_tags`.

        A branch, tag or commit in the reference is what is asked where no other is named. Raises Conflict when the name
        is taken, and InvalidRequest for what cannot be asked.
        """
        target = self.parse(reference)
        body: Json = {
            "name": name,
            "ref": target.ref or "",
            "globs": list(globs),
            "contains": contains,
            "regex": regex,
            "types": list(types),
            "min_size_bytes": min_size_bytes,
            "max_size_bytes": max_size_bytes,
            "file_tags": list(file_tags),
            "tags_file": tags_file,
        }
        return Query.read(self._http.post(self._path(target) + "/queries", body))

    def delete_query(self, reference: str | Reference, name: str) -> None:
        """Delete a saved query; commits with what it selected stay."""
        self._http.delete(self._path(reference) + "/queries" + quoted(name))

    def list_query_files(self, reference: str | Reference, *, limit: int | None = None) -> Iterator[File]:
        """Yield the files that `project/dataset@ref:query` selects, in the order of their paths."""
        target = self.parse(reference)
        ref, _, query = (target.ref or "").partition(":")
        route = self._path(target) + "/queries" + quoted(query) + "/files"
        return map(File.read, self._http.list_items(route, limit=limit, ref=ref))

    def select(self, reference: str | Reference) -> Commit:
        """Return the commit that holds what `project/dataset@ref:query` selects; asked again, it is the same one."""
        target = self.parse(reference)
        ref, _, query = (target.ref or "").partition(":")
        route = self._path(target) + "/queries" + quoted(query) + "/select"
        return Commit.read(self._http.post(route, {"ref": ref}, may_repeat=True))

    def cache(self, reference: str | Reference, *, site: str | None = None) -> CachedCommit:
        """Ask for a commit to be cached on a site. Asking again changes nothing."""
        body = {"site": site} if site else {}
        return CachedCommit.read(self._http.post(self._cache_path(reference), body, may_repeat=True))

    def uncache(self, reference: str | Reference, *, site: str | None = None) -> CachedCommit:
        """Let the copy of a commit leave a site, and return it as it leaves. Raises NotFound when there is none."""
        return CachedCommit.read(self._http.delete(self._cache_path(reference), site=site))

    def list(
        self, *, project: str | None = None, text: str | None = None, limit: int | None = None
    ) -> Iterator[Dataset]:
        """Yield the datasets, of one project or with a text in their name."""
        return map(Dataset.read, self._http.list_items("/datasets", limit=limit, project=project, q=text))

    def _ref_of(self, target: Reference) -> str:
        """Return what names the commit: for a query, the one that holds what it selects."""
        return self.select(target).id if target.query else target.ref or LATEST

    def _find_tree(self, reference: str | TreeReference) -> tuple[Commit | Output, "_Connect"]:
        """Return a commit or an output, and what opens a connection to its content."""
        target = self.parse_tree(reference)
        if isinstance(target, OutputReference):
            output = self.get_output(target)
            return output, _Connect(self._http, output.tree)
        return self.get_commit(target), _Connect(self._http, target)

    def _place_of(self, reference: str | TreeReference) -> tuple[str, Json]:
        """Return where the API has files, and what names their commit there."""
        target = self.parse_tree(reference)
        if isinstance(target, OutputReference):
            return storage_routes.tree_path(self.get_output(target).tree), {}
        return self._path(target), {"ref": self._ref_of(target)}

    def _path(self, reference: str | Reference) -> str:
        target = self.parse(reference)
        return "/datasets" + quoted(target.project, target.name)

    def _cache_path(self, reference: str | Reference) -> str:
        target = self.parse(reference)
        return self._path(target) + "/commits" + quoted(self._ref_of(target)) + "/cache"


@dataclass(frozen=True)
class _Connect:
    """Opens a connection of its own to a dataset, or to the tree of an output, by its id.

    Pickled without the token, another program uses its own settings.
    """

    http: Http
    place: Reference | str

    def __call__(self) -> Storage:
        return _open(self.http.anew(), self.place)

    def __reduce__(self) -> tuple[Callable[..., "_Connect"], tuple[tuple[str, str | None], Reference | str]]:
        return _connect, (self.http.pickled(), self.place)


def _connect(server: tuple[str, str | None], place: Reference | str) -> _Connect:
    url, token = server
    return _Connect(Http(url, token or read_settings(url=url).token), place)


def _open(http: Http, place: Reference | str) -> Storage:
    return TreeRoutes(http, place) if isinstance(place, str) else SyncRoutes(http, place)
