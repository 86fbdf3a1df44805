"""The files of a commit: folders page by page, pictures as thumbnails, and a preview beside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.http import HttpResponse
from django.shortcuts import render

from accounts.web.requests import PageRequest, text
from core.pagination import Page
from datasets.engine.browse import FolderItem
from datasets.models import Commit, Dataset
from datasets.selectors import commits, datasets, files
from datasets.services import caches
from datasets.web import heading
from datasets.web.paths import link_path, read_path, show_path
from datasets.web.previews import is_picture, preview_of
from nearline.content.manifest import Entry, EntryKind

_ROWS = 60
_NS = 1_000_000_000


@dataclass(frozen=True)
class Item:
    """A row or a thumbnail. `link` is its path as addresses carry it."""

    name: str
    link: str
    kind: str
    size_bytes: int
    files: int | None
    changed_at: datetime | None
    is_picture: bool
    is_selected: bool


@dataclass(frozen=True)
class Crumb:
    """A folder on the way to where the page is."""

    name: str
    link: str


def files_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Show a folder, or the files that match a pattern, and a preview of the chosen file."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    context = heading.of(request.actor, dataset, tab="files")
    ref = text(request, "ref") or dataset.default_branch
    context |= {"ref": ref, "refs": heading.references(request.actor, dataset)}
    if datasets.newest_commit_of(dataset) is None and ref == dataset.default_branch:
        return render(request, "datasets/no_commits.html", context)
    commit = commits.get_commit(request.actor, dataset, ref)
    folder, selected, glob = read_path(request, "path"), read_path(request, "file"), text(request, "glob")
    page = _list(request, commit, folder, glob)
    items = [_item_of(item, b"" if glob else folder, selected) for item in page.items]
    context |= {
        "commit": commit,
        "items": items,
        "next_cursor": page.next_cursor,
        "folder": show_path(folder),
        "folder_link": link_path(folder),
        "parent_link": link_path(folder.rpartition(b"/")[0]),
        "crumbs": _crumbs(folder),
        "glob": glob or "",
        "as_grid": _as_grid(text(request, "view"), items),
    }
    if selected:
        context |= _selected(request, dataset, commit, selected)
        caches.touch_commit(commit.id, f"{request.actor.name} in the browser")
    return render(request, "datasets/files.html", context)


def _list(request: PageRequest, commit: Commit, folder: bytes, glob: str | None) -> Page[FolderItem | Entry]:
    cursor = text(request, "cursor")
    if glob:
        pattern = glob if "/" in glob or glob.startswith("**") else f"**/{glob}"
        return files.list_matching(request.actor, commit, glob=pattern.encode(), cursor=cursor, limit=_ROWS)
    return files.list_folder(request.actor, commit, path=folder, cursor=cursor, limit=_ROWS)


def _item_of(item: FolderItem | Entry, folder: bytes, selected: bytes) -> Item:
    name = show_path(item.path[len(folder) + 1 if folder else 0 :])
    if isinstance(item, FolderItem):
        return Item(name, link_path(item.path), "folder", item.size_bytes, item.files, None, False, False)  # noqa: FBT003
    kind = "link" if item.kind is EntryKind.SYMLINK else "photo" if is_picture(item) else "file"
    changed_at = datetime.fromtimestamp(item.mtime_ns // _NS, UTC)
    return Item(name, link_path(item.path), kind, item.size, None, changed_at, is_picture(item), item.path == selected)


def _as_grid(view: str | None, items: Sequence[Item]) -> bool:
    if view in {"grid", "list"}:
        return view == "grid"
    return bool(items) and all(item.is_picture for item in items)


def _crumbs(folder: bytes) -> list[Crumb]:
    parts = folder.split(b"/") if folder else []
    return [Crumb(show_path(part), link_path(b"/".join(parts[: end + 1]))) for end, part in enumerate(parts)]


def _selected(request: PageRequest, dataset: Dataset, commit: Commit, path: bytes) -> dict[str, object]:
    content = files.open_file(request.actor, commit, path=path)
    return {
        "selected": {
            "name": show_path(path.rsplit(b"/", 1)[-1]),
            "path": show_path(path),
            "link": link_path(path),
            "entry": content.entry,
            "content_id": content.entry.content_id.hex(),
            "preview": preview_of(content),
            "reference": f"{dataset.project.name}/{dataset.name}@{commit.short}",
        }
    }
