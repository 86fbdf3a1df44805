"""The files of a commit: folders page by page, pictures as thumbnails, and a preview beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from django.http import HttpResponse
from django.shortcuts import render

from accounts.web.requests import PageRequest, text
from core.pagination import Page
from datasets.engine.browse import FolderItem
from datasets.engine.text_encodings import UNMARKED
from datasets.models import Commit, Dataset
from datasets.selectors import commits, datasets, files, last_changes
from datasets.selectors.last_changes import LastChange
from datasets.services import caches
from datasets.web import heading
from datasets.web.kinds import ICONS, has_thumbnail, kind_of
from datasets.web.paths import link_path, read_path
from datasets.web.previews import preview_of
from nearline.content.manifest import Entry
from nearline.content.paths import show_path

_ROWS, _THUMBNAILS = 100, 60


@dataclass(frozen=True)
class Item:
    """A row or a thumbnail. `link` is its path as addresses carry it; `changed` is None when that lies far back."""

    name: str
    link: str
    icon: str
    size_bytes: int
    files: int | None
    changed: LastChange | None
    has_thumbnail: bool
    is_selected: bool


@dataclass(frozen=True)
class Crumb:
    """A folder on the way to where the page is."""

    name: str
    link: str


def files_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Show a folder, or the files that match a pattern, and a preview of the chosen file."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    ref = text(request, "ref") or dataset.default_branch
    context = heading.of(request.actor, dataset, tab="files", ref=ref)
    if datasets.newest_commit_of(dataset) is None and ref == dataset.default_branch:
        return render(request, "datasets/no_commits.html", context)
    commit = commits.get_commit(request.actor, dataset, ref)
    folder, selected, glob = read_path(request, "path"), read_path(request, "file"), text(request, "glob")
    view = text(request, "view")
    page = _list(request, commit, folder, glob, limit=_THUMBNAILS if view == "grid" else _ROWS)
    changes = last_changes.find_last_changes(request.actor, commit, page.items)
    items = [_item_of(item, b"" if glob else folder, selected, changes) for item in page.items]
    context |= {
        "commit": commit,
        "cacheable": commit,
        "items": items,
        "next_cursor": page.next_cursor,
        "folder_totals": None if glob else files.sum_folder(request.actor, commit, path=folder),
        "folder": show_path(folder),
        "folder_link": link_path(folder),
        "parent_link": link_path(folder.rpartition(b"/")[0]),
        "crumbs": _crumbs(folder),
        "has_folders": any(item.icon == "folder" for item in items),
        # What a link to a file of this listing keeps of the address.
        "stay": _stay(request, folder, glob),
        "ref_suffix": f"&path={link_path(folder)}",
        "glob": glob or "",
        "as_grid": _as_grid(view, items),
        "may_edit": context["may_write"] and context["upload_branch"] == ref,
    }
    if selected:
        context |= _selected(request, dataset, commit, selected)
        caches.touch_commit(actor=request.actor, commit=commit)
    return render(request, "datasets/files.html", context)


def _list(
    request: PageRequest, commit: Commit, folder: bytes, glob: str | None, *, limit: int
) -> Page[FolderItem | Entry]:
    cursor = text(request, "cursor")
    if glob:
        pattern = glob if "/" in glob or glob.startswith("**") else f"**/{glob}"
        return files.list_matching(request.actor, commit, glob=pattern.encode(), cursor=cursor, limit=limit)
    return files.list_folder(request.actor, commit, path=folder, cursor=cursor, limit=limit)


def _item_of(
    item: FolderItem | Entry, folder: bytes, selected: bytes, changes: Mapping[bytes, LastChange | None]
) -> Item:
    name = show_path(item.path[len(folder) + 1 if folder else 0 :])
    link, changed = link_path(item.path), changes[item.path]
    if isinstance(item, FolderItem):
        return Item(name, link, "folder", item.size_bytes, item.files, changed, False, False)  # noqa: FBT003
    icon = ICONS[kind_of(item)]
    return Item(name, link, icon, item.size, None, changed, has_thumbnail(item), item.path == selected)


def _as_grid(view: str | None, items: Sequence[Item]) -> bool:
    if view in {"grid", "list"}:
        return view == "grid"
    return bool(items) and all(item.has_thumbnail for item in items)


def _stay(request: PageRequest, folder: bytes, glob: str | None) -> str:
    place = f"glob={quote(glob)}" if glob else f"path={link_path(folder)}"
    cursor = text(request, "cursor")
    return f"{place}&cursor={quote(cursor)}" if cursor else place


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
            "preview": preview_of(content, encoding=text(request, "encoding") or ""),
            "changed": last_changes.find_last_changes(request.actor, commit, [content.entry])[path],
            "reference": f"{dataset.project.name}/{dataset.name}@{commit.short}",
        },
        "encodings": list(UNMARKED),
    }
