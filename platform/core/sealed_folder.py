"""What a folder looked like when its content was final, to find later, without reading it, what was changed.

A file's evidence is its inode, size and times of change; the kernel sets the last of these, and no program can set it
back. Evidence that differs says that a file may have been changed; whether it was, its hash tells.
"""

import errno
import json
import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from core import clock

Evidence = list[object]
_NEVER = datetime.fromtimestamp(0, UTC)
# A job may close a folder, or make it so deep that its path cannot be opened: what is in it is not looked at.
_CLOSED = (errno.EACCES, errno.ENAMETOOLONG)
_LONGEST_PATH = 4096


@dataclass(frozen=True)
class Difference:
    """Paths that look changed or are gone, and paths that were not there before."""

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """All of them."""
        return self.changed + self.added


@dataclass(frozen=True)
class SealedFolder:
    """A folder, and the file in which its evidence is recorded. `before_each` is called before a file is looked at."""

    folder: Path
    record: Path
    before_each: Callable[[], object] = field(default=lambda: None, compare=False)

    def seal(self) -> None:
        """Record the folder as it is now, unless that was done before."""
        if not self.record.exists():
            self._write(self._survey(), put_right_at=_NEVER)

    def seal_again(self) -> None:
        """Record the folder as it is now: it was put right."""
        self._write(self._survey(), put_right_at=clock.now())

    def forget(self) -> None:
        """Drop the record: the folder is about to be made anew."""
        self.record.unlink(missing_ok=True)

    def put_right_at(self) -> datetime | None:
        """Return when the folder was put right last, by the clock of this host; None when it never was."""
        try:
            moment = datetime.fromtimestamp(self.record.stat().st_mtime, UTC)
        except FileNotFoundError:
            return None
        return moment if moment > _NEVER else None

    def compare(self) -> Difference:
        """Return what looks different from the record; nothing when there is none."""
        try:
            recorded: dict[str, Evidence] = json.loads(self.record.read_bytes())
        except FileNotFoundError:
            return Difference()
        evidence = self._survey()
        return Difference(
            changed=tuple(sorted(path for path in recorded if recorded[path] != evidence.get(path))),
            added=tuple(sorted(evidence.keys() - recorded)),
        )

    def accept(self, paths: Iterable[str]) -> None:
        """Take the present evidence of paths whose content proved right. That does not count as putting it right."""
        evidence, put_right_at = self._survey(), self.put_right_at()
        recorded: dict[str, Evidence] = json.loads(self.record.read_bytes())
        recorded |= {path: evidence[path] for path in paths if path in evidence}
        self._write(recorded, put_right_at=put_right_at or _NEVER)

    def _survey(self) -> dict[str, Evidence]:
        return _survey(self.folder, self.before_each)

    def _write(self, evidence: dict[str, Evidence], *, put_right_at: datetime) -> None:
        draft = f"{self.record}-{secrets.token_hex(4)}"
        text = json.dumps(evidence)
        try:
            _write_text(draft, text)
        except FileNotFoundError:
            self.record.parent.mkdir(parents=True, exist_ok=True)
            _write_text(draft, text)
        # Else it would be the file system's clock that dates it, which is another one where the folder is on a network.
        os.utime(draft, (put_right_at.timestamp(), put_right_at.timestamp()))
        os.replace(draft, self.record)


def _write_text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _survey(folder: Path, before_each: Callable[[], object]) -> dict[str, Evidence]:
    """Return the evidence of everything below a folder by path; nothing for one that does not exist."""
    evidence: dict[str, Evidence] = {}
    rest = [(os.fspath(folder), "")]
    while rest:
        path, prefix = rest.pop()
        try:
            entries = list(os.scandir(path))
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in _CLOSED:
                raise
            continue
        for entry in entries:
            before_each()
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                evidence[name] = []
                rest.append((entry.path, f"{name}/"))
            elif len(os.fsencode(entry.path)) >= _LONGEST_PATH:
                evidence[name] = [entry.inode()]
            elif entry.is_symlink():
                evidence[name] = [os.readlink(entry.path)]
            else:
                facts = entry.stat(follow_symlinks=False)
                evidence[name] = [facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns]
    return evidence
