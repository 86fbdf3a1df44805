"""What one host asks another about its jobs, as JSON."""

import base64
from collections.abc import Sequence
from dataclasses import astuple
from datetime import datetime
from typing import Any

from compute.engine.ports import LogChunk, UsageSample

READ_LOG = "compute.read_log"
READ_USAGE = "compute.read_usage"


def chunk_to_json(chunk: LogChunk) -> dict[str, Any]:
    """Return part of a log as JSON."""
    return {
        "data": base64.b64encode(chunk.data).decode(),
        "next_offset": chunk.next_offset,
        "is_complete": chunk.is_complete,
        "size_bytes": chunk.size_bytes,
    }


def chunk_from_json(facts: dict[str, Any]) -> LogChunk:
    """Return what `chunk_to_json` was given."""
    return LogChunk(**{**facts, "data": base64.b64decode(facts["data"])})


def samples_to_json(samples: Sequence[UsageSample]) -> dict[str, Any]:
    """Return samples as JSON."""
    rows = map(astuple, samples)
    return {"samples": [[at.isoformat(), *used] for at, *used in rows]}


def samples_from_json(facts: dict[str, Any]) -> Sequence[UsageSample]:
    """Return what `samples_to_json` was given."""
    return [UsageSample(datetime.fromisoformat(at), *used) for at, *used in facts["samples"]]


def moment_from_json(text: str | None) -> datetime | None:
    """Return a moment; None stays None."""
    return None if text is None else datetime.fromisoformat(text)
