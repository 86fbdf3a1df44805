"""The folder in which a step finds the outputs of all tries of a grid: `<index>/`, one for each.

It is made of real folders with links to the files, because most programs that walk a tree do not follow links to
folders. Its name says which outputs it holds, and it appears when it is whole, so it can be made twice at once.
"""

import hashlib
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from flows.adapters.sealed_folder import SealedFolder

# Beyond so many files folders are linked instead: making a link for each would hold the run up.
_MOST_LINKS = 20_000


def run_folder(run_id: str) -> Path:
    """Return the folder for what a run needs besides its jobs' own folders."""
    return Path(settings.NEARLINE.home).absolute() / "runs" / run_id


def list_run_folders() -> list[Path]:
    """Return the folders of all runs that have one."""
    runs = run_folder("any").parent
    return sorted(runs.iterdir()) if runs.is_dir() else []


@dataclass(frozen=True)
class Gathered:
    """A folder with links, and a file that lists the folders into which they lead."""

    folder: Path
    sources: Path


def gather_outputs(run_id: str, key: str, outputs: Mapping[int, Path]) -> Gathered:
    """Return the folder that shows the outputs of a grid's tries under their indices."""
    content = "\n".join(f"{index} {path}" for index, path in sorted(outputs.items()))
    name = f"{key}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    folder = run_folder(run_id) / "inputs" / name
    gathered = Gathered(folder, folder.with_name(f"{name}.sources"))
    sealed = sealed_links(folder)
    if folder.exists() and sealed.compare().paths:
        shutil.rmtree(folder)
    if folder.exists():
        return gathered
    sealed.forget()
    draft = folder.with_name(f".{name}-{secrets.token_hex(4)}")
    draft.mkdir(parents=True)
    links = 0
    for index, source in sorted(outputs.items()):
        links = _mirror(source, draft / str(index), links)
    write_text(gathered.sources, "".join(f"{path}\n" for path in outputs.values()))
    try:
        draft.rename(folder)
        sealed.seal_again()
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not folder.exists():  # nobody else was quicker: it could not be made
            raise
    return gathered


def sealed_links(folder: Path) -> SealedFolder:
    """Return the evidence by which a change of a folder of links is found."""
    return SealedFolder(folder, folder.with_name(f".{folder.name}.seal"))


def list_sources(path: str, sources: str) -> list[str]:
    """Return the folders that hold the files of an input: those that its links lead to, or itself."""
    return Path(sources).read_text().splitlines() if sources else [path]


def write_text(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    draft = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    draft.write_text(text)
    draft.rename(path)


def _mirror(source: Path, target: Path, links: int) -> int:
    target.mkdir()
    try:
        entries = list(os.scandir(source))
    except FileNotFoundError:
        return links  # a job without outputs may have no folder
    for entry in entries:
        place = target / entry.name
        if entry.is_dir(follow_symlinks=False) and links < _MOST_LINKS:
            links = _mirror(Path(entry.path), place, links)
        else:
            place.symlink_to(entry.path)
            links += 1
    return links
