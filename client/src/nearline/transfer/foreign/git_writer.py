"""A git repository written without git: loose objects, one commit, and the index (gitformat-index(5))."""

import hashlib
import os
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FILE, PROGRAM, LINK, _FOLDER = 0o100644, 0o100755, 0o120000, 0o040000
_STAT = struct.Struct(">10I")
_LONGEST_LENGTH, _WORD = 0xFFF, 0xFFFFFFFF


@dataclass(frozen=True)
class GitFile:
    """A file of a commit: its path, its mode, and the id of its blob. Its place is below the working tree."""

    path: bytes
    mode: int
    blob_id: bytes


class GitWriter:
    """Writes into the folder `.git` of a new repository."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._git = root / ".git"
        (self._git / "refs" / "heads").mkdir(parents=True)
        (self._git / "HEAD").write_text("ref: refs/heads/main\n")
        (self._git / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n")

    def put_blob(self, data: bytes) -> bytes:
        """Keep the content of a file and return its id."""
        return self._put(b"blob", data)

    def commit(self, files: Iterable[GitFile], *, author: str, seconds: int, message: str) -> None:
        """Make a commit of files the head of `main`, and the index that of it."""
        ordered = sorted(files, key=lambda file: file.path)
        name = "".join(letter for letter in author if letter.isprintable() and letter not in "<>") or "nearline"
        person = f"{name} <> {seconds} +0000"
        text = f"tree {self._put_tree(ordered).hex()}\nauthor {person}\ncommitter {person}\n\n{message.rstrip()}\n"
        commit_id = self._put(b"commit", text.encode())
        (self._git / "refs" / "heads" / "main").write_text(f"{commit_id.hex()}\n")
        self._write_index(ordered)

    def _put_tree(self, files: list[GitFile], depth: int = 0) -> bytes:
        """Keep the folder of files whose paths have the same first parts, so many, and return its id."""
        folders: dict[bytes, list[GitFile]] = {}
        rows: list[tuple[bytes, int, bytes, bytes]] = []
        for file in files:
            name, *below = file.path.split(b"/")[depth:]
            if below:
                folders.setdefault(name, []).append(file)
            else:
                rows.append((name, file.mode, name, file.blob_id))
        # git sorts a folder as if its name ended with a slash.
        rows += [(name + b"/", _FOLDER, name, self._put_tree(inside, depth + 1)) for name, inside in folders.items()]
        return self._put(b"tree", b"".join(b"%o %s\0%s" % row[1:] for row in sorted(rows)))

    def _put(self, kind: bytes, data: bytes) -> bytes:
        full = b"%s %d\0%s" % (kind, len(data), data)
        id_ = hashlib.sha1(full, usedforsecurity=False).digest()
        place = self._git / "objects" / id_.hex()[:2] / id_.hex()[2:]
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(zlib.compress(full, 1))
        return id_

    def _write_index(self, files: list[GitFile]) -> None:
        parts = [struct.pack(">4sII", b"DIRC", 2, len(files))]
        for file in files:
            status = (self._root / os.fsdecode(file.path)).lstat()
            times = (*divmod(status.st_ctime_ns, 10**9), *divmod(status.st_mtime_ns, 10**9))
            numbers = (*times, status.st_dev, status.st_ino, file.mode, status.st_uid, status.st_gid, status.st_size)
            entry = _STAT.pack(*(number & _WORD for number in numbers)) + file.blob_id
            entry += struct.pack(">H", min(len(file.path), _LONGEST_LENGTH)) + file.path
            parts.append(entry + b"\0" * (8 - len(entry) % 8))
        data = b"".join(parts)
        (self._git / "index").write_bytes(data + hashlib.sha1(data, usedforsecurity=False).digest())
