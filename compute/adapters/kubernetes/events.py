"""The warnings that a cluster keeps about the objects in our namespace, about an hour long."""

from collections.abc import Iterable
from datetime import datetime

from compute.engine.ports import ClusterEvent
from core.kubernetes.gateway import Json

_MOST = 20
_LONGEST_TEXT = 500


def read_events(events: Iterable[Json]) -> tuple[ClusterEvent, ...]:
    """Return the newest warnings, the newest first. One without a moment, or without an object, tells nothing."""
    read = [event for item in events if item.get("type") == "Warning" and (event := _read(item)) is not None]
    return tuple(sorted(read, key=lambda event: (event.at, event.about, event.reason), reverse=True)[:_MOST])


def _read(item: Json) -> ClusterEvent | None:
    about, series = item.get("involvedObject") or {}, item.get("series") or {}
    metadata = item.get("metadata") or {}
    moments = (series.get("lastObservedTime"), item.get("lastTimestamp"), item.get("eventTime"))
    moment = next((each for each in (*moments, metadata.get("creationTimestamp")) if each), None)
    if moment is None or not about.get("name"):
        return None
    try:
        at = datetime.fromisoformat(str(moment)).replace(microsecond=0)
    except ValueError:
        return None
    return ClusterEvent(
        at=at.isoformat(),
        about=f"{about.get('kind', '')} {about['name']}".strip(),
        reason=str(item.get("reason", "")),
        text=str(item.get("message", ""))[:_LONGEST_TEXT],
        count=int(series.get("count") or item.get("count") or 1),
    )
