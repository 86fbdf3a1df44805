"""Logs of pods by byte offsets, which the cluster's API does not know: what was read once is kept in a file here.

A node keeps the last 10 MiB of a log or so, hence a log is read while it is written. The files are a cache: whoever
has none reads from the beginning of what the node still has.
"""

import fcntl
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

import structlog

from compute.adapters.kubernetes.gateway import Gateway, Refusal
from compute.engine.job_spec import DEFAULT_LOG_LIMIT_BYTES
from compute.engine.masking import mask
from compute.engine.ports import LogChunk

log = structlog.get_logger(__name__)

_STAMP = len("2026-01-01T00:00:00.000000000Z")
_FOLLOWER_ENDS_S, _LOCK_PAUSE_S = 3.0, 0.05
_SECOND = len("2026-01-01T00:00:00")
_CUT = b"[nearline] The log is cut here, as it is longer than %d MiB.\n" % (DEFAULT_LOG_LIMIT_BYTES >> 20)


@dataclass(frozen=True)
class _Position:
    """How far a log was read: the file's size, and how many lines have the last time stamp."""

    size: int = 0
    stamp: str = ""
    lines: int = 0
    is_complete: bool = False


class PodLogs:
    """The logs of one cluster. Several processes may read the same log at once."""

    def __init__(self, folder: Path, gateway: Gateway) -> None:
        self._folder = folder
        self._gateway = gateway

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
        self, name: str, path: str, read_secrets: Callable[[], list[bytes]], *, has_ended: bool, follow_s: float = 0
    ) -> None:
        """Read on in the log at a path of the API. `has_ended`: what it has now is all of it.

        With `follow_s` what is printed in the next so many seconds is read too. Raises ResourceUnreachable.
        """
        # Who follows a log stops soon after its command has.
        with self._lock(name, wait_s=_FOLLOWER_ENDS_S if has_ended else 0) as is_mine:
            position = self._position(name)
            if not is_mine or position.is_complete:
                return
            query = {"container": "main", "timestamps": "true"}
            if position.stamp:
                query["sinceTime"] = f"{position.stamp[:_SECOND]}Z"
            if follow_s:
                query["follow"] = "true"
            try:
                lines = _lines(self._gateway.stream(path, read_s=10 + follow_s, **query), is_whole=has_ended)
                position = self._append(name, position, lines, read_secrets())
            except Refusal as error:  # it has not started yet, or its node has removed it
                log.debug("log.refused", pod=name, error=error.message)
            self._keep(name, replace(position, is_complete=has_ended))

    def remove(self, name: str) -> None:
        """Remove what is known of a log."""
        for suffix in ("", ".position", ".lock"):
            self._file(name, suffix).unlink(missing_ok=True)

    def _append(self, name: str, position: _Position, lines: Iterator[bytes], needles: list[bytes]) -> _Position:
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
                line = mask(line, needles)
                if position.size + len(line) > DEFAULT_LOG_LIMIT_BYTES:
                    line = _CUT
                file.write(line)
                file.flush()
                lines_of_stamp = position.lines + 1 if stamp == position.stamp else 1
                seen = lines_of_stamp
                size = DEFAULT_LOG_LIMIT_BYTES if line is _CUT else position.size + len(line)
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
            while not (is_mine := _is_locked(file)) and time.monotonic() < deadline:
                time.sleep(_LOCK_PAUSE_S)
            yield is_mine

    def _file(self, name: str, suffix: str = "") -> Path:
        return self._folder / f"{name}.log{suffix}"


def _lines(pieces: Iterator[bytes], *, is_whole: bool) -> Iterator[bytes]:
    """Yield lines with their ends; a last one without an end only if nothing can follow it."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in whole)
    if rest and is_whole:
        yield rest


def _is_locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_stamp(text: str) -> bool:
    """Whether a line begins as the API's lines do. What a node says in place of a log does not."""
    return len(text) == _STAMP and text[10:11] == "T" and text.endswith("Z")
