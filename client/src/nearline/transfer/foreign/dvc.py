"""DVC repositories: what their .dvc and dvc.lock files track, found by its hash; and the way back.

Reads caches of DVC 2 and 3. Nothing of a repository is run, and no path of it leads outside. What no cache has is taken
from the working tree, where git keeps metrics and plots.
"""

import configparser
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nearline.content.dvc_stages import list_outputs
from nearline.content.entries import Entry, EntryKind
from nearline.content.errors import BadPath
from nearline.content.folders import walk_folders
from nearline.content.paths import find_fault, to_bytes, to_text
from nearline.errors import InvalidRequest
from nearline.transfer.foreign.adoption import Adoption, Digest, is_plain_file, name_some, read_small, require_files

_MOST_YAML_BYTES, _MOST_JSON_BYTES = 64 << 20, 512 << 20
_HASH = re.compile(r"[0-9a-f]{32}(\.dir)?")
_FETCH = "Run `dvc fetch` in the repository, then import again."
_READ_ONLY = 0o444


def read_repository(root: Path) -> Adoption:
    """Return all files that a DVC repository tracks, under their path in it.

    Raises InvalidRequest for what is no repository, and Failed naming the files whose content is not on this machine.
    """
    if not (root / ".dvc").is_dir():
        raise InvalidRequest(f"'{root}' is no DVC repository: it has no folder .dvc.")
    caches = list(_list_caches(root))
    files: dict[bytes, Path] = {}
    digests: dict[Path, Digest] = {}
    missing: list[bytes] = []
    for output, output_md5, is_old in _list_outputs(root):
        for path, md5 in _list_files(root, caches, output, output_md5):
            place = _find(caches, md5) or _find_in_tree(root, path)
            if place is None:
                missing.append(path)
            else:
                files[path] = place
                digests[place] = Digest("md5", md5, is_text=is_old)
    require_files(missing, hint=_FETCH)
    if not files:
        raise InvalidRequest(f"'{root}' tracks no file: it has neither .dvc files nor a dvc.lock with outputs.")
    return Adoption(files, digests)


def check_entries(entries: Iterable[Entry]) -> None:
    """Raise InvalidRequest for links and names that DVC cannot track."""
    strange = [
        entry.path
        for entry in entries
        if entry.kind is EntryKind.SYMLINK or to_text(entry.path).encode("utf-8", "replace") != entry.path
    ]
    if strange:
        raise InvalidRequest(
            f"DVC tracks neither links nor names that are no text: {name_some(strange)}.",
            hint="Remove or rename them in the dataset, or export what a query selects.",
        )


def write_repository(root: Path, name: str) -> int:
    """Make a DVC repository of a folder `name` in `root`, and return how many files it tracks.

    Files get a second name in the cache (a hard link, else a copy) and are read-only, as DVC itself leaves them.
    `check_entries` says which entries may be in the folder.
    """
    cache, tree = root / ".dvc" / "cache" / "files" / "md5", root / name
    listed, size = _list_folder(os.fsencode(tree)), 0
    for item in listed:
        full = os.path.join(os.fsencode(tree), to_bytes(item["relpath"]))
        size += os.path.getsize(full)
        _keep(full, cache / item["md5"][:2] / item["md5"][2:])
    data = _write_list(listed)
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    (cache / md5[:2]).mkdir(parents=True, exist_ok=True)
    (cache / md5[:2] / f"{md5[2:]}.dir").write_bytes(data)
    (root / ".dvc" / "config").write_text("[core]\n    no_scm = True\n[cache]\n    type = hardlink,copy\n")
    (root / f"{name}.dvc").write_text(
        f"outs:\n- md5: {md5}.dir\n  size: {size}\n  nfiles: {len(listed)}\n  hash: md5\n  path: {name}\n"
    )
    return len(listed)


def _list_caches(root: Path) -> Iterator[Path]:
    """Yield the folders that content is looked for in: the cache, then remotes that are folders of this machine."""
    own = root / ".dvc"
    config = configparser.ConfigParser(interpolation=None, strict=False)
    for name in ("config", "config.local"):
        if (own / name).is_file():
            try:
                config.read_string(read_small(own / name, _MOST_YAML_BYTES).decode("utf-8", "replace"))
            except configparser.Error as error:
                raise InvalidRequest(f"'{own / name}' is no configuration of DVC: {error}") from error
    yield own / config.get("cache", "dir", fallback="cache")
    for section in config.sections():
        url = config.get(section, "url", fallback="")
        if "remote" in section and url and "://" not in url:
            yield own / url


def _find(caches: list[Path], md5: str) -> Path | None:
    # DVC 3, then DVC 2.
    places = (cache / part / md5[:2] / md5[2:] for cache in caches for part in ("files/md5", ""))
    return next((place for place in places if is_plain_file(place)), None)


def _find_in_tree(root: Path, path: bytes) -> Path | None:
    place = root / os.fsdecode(path)
    return place if not find_fault(path) and is_plain_file(place) else None


def _list_outputs(root: Path) -> Iterator[tuple[bytes, str, bool]]:
    """Yield path, hash, and whether DVC 2 made the hash."""
    for folder, folders, names in walk_folders(os.fspath(root)):
        folders[:] = sorted(name for name in folders if name not in {".dvc", ".git"})
        for name in sorted(names):
            file = Path(folder, name)
            if name == "dvc.lock":
                pipeline = Path(folder, "dvc.yaml")
                try:
                    outputs = list(list_outputs(_read_yaml(file), _read_yaml(pipeline) if pipeline.is_file() else {}))
                except BadPath as error:
                    raise InvalidRequest(
                        f"'{file}' cannot be followed: {error}", hint=f"Write the folder itself into '{pipeline}'."
                    ) from error
                for output in outputs:
                    yield from _describe(root, Path(folder, output.folder), [output.described])
            elif name.endswith(".dvc") and name != ".dvc":
                document = _read_yaml(file)
                base = Path(folder, document["wdir"]) if isinstance(document.get("wdir"), str) else Path(folder)
                yield from _describe(root, base, _list_of(document, "outs"))


def _describe(root: Path, base: Path, outs: list[Any]) -> Iterator[tuple[bytes, str, bool]]:
    for out in outs:
        if not isinstance(out, Mapping) or not isinstance(out.get("path"), str):
            raise InvalidRequest(f"An output in '{base}' has no path that is text.")
        path = os.path.relpath(os.path.normpath(base / out["path"]), root)
        if path.startswith("..") or path == ".":
            raise InvalidRequest(f"The output '{out['path']}' in '{base}' lies outside of the repository.")
        md5 = out.get("md5")
        if not isinstance(md5, str) or not _HASH.fullmatch(md5):
            raise InvalidRequest(
                f"The output '{out['path']}' in '{base}' has no md5.", hint="Run `dvc commit` in the repository first."
            )
        yield os.fsencode(path), md5, out.get("hash") != "md5"


def _list_files(root: Path, caches: list[Path], output: bytes, md5: str) -> Iterable[tuple[bytes, str]]:
    """Return path and hash of what an output holds; of a folder whose list is nowhere, those of the folder itself."""
    if not md5.endswith(".dir"):
        return [(output, md5)]
    if (place := _find(caches, md5)) is not None:
        listed = list(_read_folder(place, md5))
    else:
        tree = root / os.fsdecode(output)
        # A link could lead to all files of the machine.
        tree_files = _list_folder(os.fsencode(tree)) if tree.resolve().is_relative_to(root.resolve()) else []
        if hashlib.md5(_write_list(tree_files), usedforsecurity=False).hexdigest() != md5.removesuffix(".dir"):
            return [(output, md5)]
        listed = [(to_bytes(item["relpath"]), item["md5"]) for item in tree_files]
    return [(output + b"/" + path, file_md5) for path, file_md5 in listed]


def _read_folder(place: Path, md5: str) -> Iterator[tuple[bytes, str]]:
    data = read_small(place, _MOST_JSON_BYTES)
    if hashlib.md5(data, usedforsecurity=False).hexdigest() != md5.removesuffix(".dir"):
        raise InvalidRequest(f"'{place}' is damaged: it is not what its name says.", hint=_FETCH)
    try:
        items = [(to_bytes(item["relpath"]), _HASH.fullmatch(item["md5"])) for item in json.loads(data)]
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
        raise InvalidRequest(f"'{place}' is no list of files as DVC writes it.") from error
    for path, match in items:
        if match is None:
            raise InvalidRequest(f"'{place}' lists a file without an md5: {name_some([path])}.")
        yield path, match[0]


def _read_yaml(file: Path) -> Mapping[str, Any]:
    try:
        from nearline.content.plain_yaml import UnreadableYaml, read_yaml  # noqa: PLC0415 (needs an extra)
    except ImportError as error:
        raise InvalidRequest("Reading DVC files needs a YAML reader.", hint="pip install 'nearline[dvc]'") from error
    try:
        document = read_yaml(read_small(file, _MOST_YAML_BYTES))
    except UnreadableYaml as error:
        raise InvalidRequest(f"'{file}' is no file of DVC. {error}") from error
    return document if isinstance(document, Mapping) else {}


def _list_of(mapping: object, key: str) -> list[Any]:
    entries = mapping.get(key) if isinstance(mapping, Mapping) else None
    return entries if isinstance(entries, list) else []


def _list_folder(tree: bytes) -> list[dict[str, str]]:
    """Return the plain files of a folder as DVC lists them."""
    places = (os.path.join(folder, name) for folder, _, names in walk_folders(tree) for name in names)
    listed = [
        {"md5": _md5_of(place), "relpath": to_text(place[len(tree) + 1 :])}
        for place in places
        if is_plain_file(Path(os.fsdecode(place)))
    ]
    return sorted(listed, key=lambda item: item["relpath"])


def _write_list(listed: list[dict[str, str]]) -> bytes:
    return json.dumps(listed, sort_keys=True).encode()


def _md5_of(full: bytes) -> str:
    with open(full, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _keep(full: bytes, place: Path) -> None:
    """Give a file its name in the cache, and let file and cache be one where the file system can."""
    place.parent.mkdir(parents=True, exist_ok=True)
    os.chmod(full, _READ_ONLY | (os.stat(full).st_mode & 0o111))
    if not place.exists():
        try:
            os.link(full, place)
        except OSError:
            place.write_bytes(Path(os.fsdecode(full)).read_bytes())
            place.chmod(_READ_ONLY)
