"""Logs of containers by byte offsets, which their API does not know: what was read once is kept in a file here.

A node of a cluster keeps the last 10 MiB of a log or so, hence a log is read while it is written. The files are a
cache: whoever has none reads from the beginning of what the node still has. The logs of a gang's replicas become one
log, in the order of time, so that it is the same wherever it is joined.
"""

import heapq
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import IO, Protocol

import structlog

from compute.adapters.file_locks import try_lock
from compute.engine.job_spec import DEFAULT_LOG_LIMIT_BYTES
from compute.engine.masking import mask
from compute.engine.ports import LogChunk
from compute.errors import ResourceUnreachable
from core.kubernetes.gateway import Refusal

log = structlog.get_logger(__name__)

_STAMP = len("2026-01-01T00:00:00.000000000Z")
_OTHER_ENDS_S, _LOCK_PAUSE_S = 3.0, 0.05
_SECOND = len("2026-01-01T00:00:00")
# So long a line may take to be read here: until then an earlier one of another replica may still come.
_SETTLED = timedelta(seconds=5)
_BARE = b"", b""
_CUT = b"[nearline] The log is cut here, as it is longer than %d MiB.\n" % (DEFAULT_LOG_LIMIT_BYTES >> 20)


@dataclass(frozen=True)
class _Position:
    """How far a log was read: the file's size, and how many lines have the last time stamp.

    `taken` is how many bytes of each part a joined log has.
    """

    size: int = 0
    stamp: str = ""
    lines: int = 0
    is_complete: bool = False
    taken: Sequence[int] = ()


class LogSource(Protocol):
    """What gives out logs as the API of a cluster does: by its words for the parts of a query."""

    def stream(self, path: str, read_s: float, **query: str) -> Iterator[bytes]:
        """Yield lines that begin with time stamps. Raises Refusal."""


class StampedLogs:
    """The logs of one place. Several processes may read the same log at once."""

    def __init__(self, folder: Path, source: LogSource) -> None:
        self._folder = folder
        self._source = source

    def read(self, name: str, offset: int, limit: int) -> LogChunk:
        """Return what is known of a log."""
        position = self._position(name)
        try:
            with self._file(name).open("rb") as file:
                file.seek(offset)
                data = file.read(max(0, min(limit, position.size - offset)))
        except FileNotFoundError:
            data = b""
        end = offset + len(data)
        is_complete = position.is_complete and end >= position.size
        return LogChunk(data, end, is_complete=is_complete, size_bytes=position.size)

    def is_complete(self, name: str) -> bool:
        """Whether all of a log is known."""
        return self._position(name).is_complete

    def fetch(
        self,
        name: str,
        path: str,
        read_secrets: Callable[[], list[bytes]],
        *,
        has_ended: bool,
        follow_s: float = 0,
        is_part: bool = False,
    ) -> None:
        """Read on in the log at a path of the API. `has_ended`: what it has now is all of it.

        With `follow_s` what is printed in the next so many seconds is read too. One that `is_part` of a joined log is
        kept with its time stamps. `read_secrets` is asked what not to show once there is a line. Raises what the source
        raises, and ResourceUnreachable while somebody else reads the end.
        """
        name = _part_of(name) if is_part else name
        # Who follows a log stops soon after its command has.
        with self._lock(name, wait_s=_OTHER_ENDS_S if has_ended else 0) as is_mine:
            position = self._position(name)
            if position.is_complete or not _may_read_on(is_mine=is_mine, has_ended=has_ended):
                return
            query = {"container": "main", "timestamps": "true"}
            if position.stamp:
                query["sinceTime"] = f"{position.stamp[:_SECOND]}Z"
            if follow_s:
                query["follow"] = "true"
            try:
                lines = _lines(self._source.stream(path, read_s=10 + follow_s, **query), is_whole=has_ended)
                position = self._append(name, position, lines, cache(read_secrets), with_stamps=is_part)
            except Refusal as error:  # it has not started yet, or its node has removed it
                log.debug("log.refused", pod=name, error=error.message)
            self._keep(name, replace(position, is_complete=has_ended))

    def join(self, name: str, parts: Sequence[str], *, now: datetime) -> None:
        """Append to the log of a gang what those of its replicas have, by rank, as far as nothing earlier can come.

        Lines of all replicas but the first say whose they are. Raises ResourceUnreachable while somebody else joins
        what is complete.
        """
        has_ended = all(map(self.is_complete, map(_part_of, parts)))
        with self._lock(name, wait_s=_OTHER_ENDS_S if has_ended else 0) as is_mine, ExitStack() as files:
            known = [self._position(_part_of(part)) for part in parts]
            position = self._position(name)
            if position.is_complete or not _may_read_on(is_mine=is_mine, has_ended=has_ended):
                return
            is_complete = all(part.is_complete for part in known)
            until = "~" if is_complete else (now - _SETTLED).strftime("%Y-%m-%dT%H:%M:%S")
            taken, size = list(position.taken) or [0] * len(parts), position.size
            lines = [
                _stamped_lines(files.enter_context(self._open_part(part)), rank, taken[rank], known[rank].size, until)
                for rank, part in enumerate(parts)
            ]
            target = files.enter_context(self._file(name).open("ab"))
            target.truncate(size)
            for _, rank, stamped in heapq.merge(*lines, key=lambda line: line[:2]):
                taken[rank] += len(stamped)
                line = (b"[%d] " % rank if rank else b"") + stamped[_STAMP + 1 :]
                if size < DEFAULT_LOG_LIMIT_BYTES:
                    is_cut = size + len(line) > DEFAULT_LOG_LIMIT_BYTES
                    target.write(_CUT if is_cut else line)
                    size = DEFAULT_LOG_LIMIT_BYTES if is_cut else size + len(line)
            target.flush()
            self._keep(name, _Position(size, is_complete=is_complete, taken=taken))

    def remove(self, name: str) -> None:
        """Remove what is known of a log, and of those of which it was joined."""
        for file in self._folder.glob(f"{name}*.log*"):
            file.unlink(missing_ok=True)

    def _open_part(self, name: str) -> IO[bytes]:
        file = self._file(_part_of(name))
        file.touch()
        return file.open("rb")

    def _append(
        self,
        name: str,
        position: _Position,
        lines: Iterator[bytes],
        read_secrets: Callable[[], list[bytes]],
        *,
        with_stamps: bool,
    ) -> _Position:
        """Append the lines that are new to the file, and return how far it goes."""
        seen = 0
        with self._file(name).open("ab") as file:
            file.truncate(position.size)
            for stamped in lines:
                stamp, line = stamped[:_STAMP].decode(errors="replace"), stamped[_STAMP + 1 :]
                if not _is_stamp(stamp) or stamp < position.stamp:
                    continue
                if stamp == position.stamp and (seen := seen + 1) <= position.lines:
                    continue
                if position.size >= DEFAULT_LOG_LIMIT_BYTES:
                    break
                # What is kept with stamps is joined with others, line by line.
                before, after = (
                    (stamped[: _STAMP + 1], b"" if line.endswith(b"\n") else b"\n") if with_stamps else _BARE
                )
                line = before + mask(line, read_secrets()) + after
                is_cut = position.size + len(line) > DEFAULT_LOG_LIMIT_BYTES
                file.write(before + _CUT if is_cut else line)
                file.flush()
                lines_of_stamp = position.lines + 1 if stamp == position.stamp else 1
                seen = lines_of_stamp
                size = DEFAULT_LOG_LIMIT_BYTES if is_cut else position.size + len(line)
                position = _Position(size, stamp, lines_of_stamp)
        return position

    def _position(self, name: str) -> _Position:
        try:
            return _Position(**json.loads(self._file(name, ".position").read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return _Position()

    def _keep(self, name: str, position: _Position) -> None:
        draft = self._file(name, ".new")
        draft.write_text(json.dumps(asdict(position)))
        draft.replace(self._file(name, ".position"))

    @contextmanager
    def _lock(self, name: str, *, wait_s: float) -> Iterator[bool]:
        """Say whether nobody else reads on in this log now, or in so many seconds."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._file(name, ".lock").open("w") as file:
            deadline = time.monotonic() + wait_s
            while not (is_mine := try_lock(file)) and time.monotonic() < deadline:
                time.sleep(_LOCK_PAUSE_S)
            yield is_mine

    def _file(self, name: str, suffix: str = "") -> Path:
        return self._folder / f"{name}.log{suffix}"


def _may_read_on(*, is_mine: bool, has_ended: bool) -> bool:
    """Whether to read on in a log. Raises ResourceUnreachable where what is known would be taken for its end."""
    if has_ended and not is_mine:
        raise ResourceUnreachable("Somebody else is reading the end of the log.")
    return is_mine


def _part_of(name: str) -> str:
    """Return the name of a replica's own log, whichever replica it is."""
    return f"{name}.part"


def _stamped_lines(file: IO[bytes], rank: int, start: int, end: int, until: str) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield the whole lines of a part between two offsets that were printed before a moment, with stamp and rank."""
    file.seek(start)
    while file.tell() < end and (line := file.readline()).endswith(b"\n") and line[: len(until)] < until.encode():
        yield line[:_STAMP], rank, line


def _lines(pieces: Iterator[bytes], *, is_whole: bool) -> Iterator[bytes]:
    """Yield lines with their ends; a last one without an end only if nothing can follow it."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in whole)
    if rest and is_whole:
        yield rest


def _is_stamp(text: str) -> bool:
    """Whether a line begins as the API's lines do. What a node says in place of a log does not."""
    return len(text) == _STAMP and text[10:11] == "T" and text.endswith("Z")
