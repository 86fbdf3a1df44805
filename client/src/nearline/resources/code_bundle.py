"""The code that goes with a flow: the files beside it as a tar.gz, the same bytes for the same files.

In a git repository these are the files that git tracks or would track. Elsewhere hidden files, environments and
what `.nearlineignore` lists stay out. Folders linked to a dataset are data, not code. Links are never sent: unpacked
elsewhere they would lead to other places, so servers refuse them.
"""

import gzip
import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

from nearline.errors import InvalidRequest

MAX_BYTES = 20 * 2**20
MAX_UNPACKED_BYTES = 200 * 2**20
MAX_FILES = 10_000

_DATA_FOLDER = ".nearline"
_NOT_CODE = {"__pycache__", "node_modules"}
_HINT = "Keep it out with .gitignore or .nearlineignore, or run without code: --no-code."


def pack_code(folder: Path, *, without: Path | None = None, links: list[str] | None = None) -> bytes | None:
    """Return the code of a folder, `without` the flow file itself; None where there is none.

    The names of links, which stay behind, are added to `links`. Raises InvalidRequest when it is more than a server
    takes.
    """
    if (folder / _DATA_FOLDER).exists():
        return None
    listed = sorted(name for name in _list_files(folder) if folder / name != without)
    names = [name for name in listed if not (folder / name).is_symlink()]
    if links is not None:
        links.extend(name for name in listed if (folder / name).is_symlink())
    if not names:
        return None
    _check_size(folder, names)
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in names:
            _add(archive, folder / name, name)
    data = buffer.getvalue()
    if len(data) > MAX_BYTES:
        raise InvalidRequest(f"The code in '{folder}' packs to more than {MAX_BYTES // 2**20} MiB.", hint=_HINT)
    return data


def _list_files(folder: Path) -> Iterator[str]:
    listed = _list_with_git(folder)
    for name in _walk(folder) if listed is None else listed:
        path = folder / name
        is_listed = path.is_file() or path.is_symlink()
        if is_listed and not any((folder / parent / _DATA_FOLDER).exists() for parent in Path(name).parents):
            yield name


def _list_with_git(folder: Path) -> list[str] | None:
    command = ["git", "-C", str(folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return [os.fsdecode(name) for name in set(done.stdout.split(b"\0")) if name] if done.returncode == 0 else None


def _walk(folder: Path) -> Iterator[str]:
    from nearline.transfer.local.ignore import read_rules  # noqa: PLC0415 (brings what only transfers need)

    rules = read_rules(os.fsencode(folder))
    for place, folders, files in os.walk(folder):
        inside = Path(place).relative_to(folder)
        files += [name for name in folders if (Path(place) / name).is_symlink()]
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name not in _NOT_CODE
            and not (Path(place) / name / "pyvenv.cfg").exists()
            and not rules.is_ignored(os.fsencode(inside / name), is_folder=True)
        ]
        for name in files:
            path = inside / name
            if not name.startswith(".") and not rules.is_ignored(os.fsencode(path), is_folder=False):
                yield str(path)


def _check_size(folder: Path, names: list[str]) -> None:
    size_bytes = 0
    for number, name in enumerate(names, 1):
        size_bytes += (folder / name).stat().st_size
        if size_bytes > MAX_UNPACKED_BYTES or number > MAX_FILES:
            raise InvalidRequest(
                f"'{folder}' holds more code than a flow may bring: {MAX_UNPACKED_BYTES // 2**20} MiB "
                f"in {MAX_FILES:,} files.",
                hint=_HINT,
            )


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    # Owners and times differ from machine to machine and would make another version of the same code.
    member = tarfile.TarInfo(name)
    status = path.stat()
    member.size = status.st_size
    member.mode = 0o755 if status.st_mode & 0o100 else 0o644
    with path.open("rb") as file:
        archive.addfile(member, file)
