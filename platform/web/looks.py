"""The one look of every state: its word, its colour class and its icon. State is never colour alone."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """How a state appears. `css` is one of running, pending, succeeded, failed, ended, cached."""

    word: str
    css: str
    icon: str


_RUNNING, _WAITING, _OVER = "player-play", "clock", "circle-minus"
_LOOKS = {
    "running": Look("Running", "running", _RUNNING),
    "starting": Look("Starting", "running", _RUNNING),
    "preparing": Look("Preparing", "running", _RUNNING),
    "provisioning": Look("Provisioning", "running", _RUNNING),
    "hydrating": Look("Caching", "running", _RUNNING),
    "evicting": Look("Clearing", "running", "trash"),
    "leaving": Look("Requeuing", "pending", "player-pause"),
    "suspending": Look("Suspending", "pending", "player-pause"),
    "suspended": Look("Suspended", "ended", "player-pause"),
    "stopping": Look("Stopping", "pending", "player-stop"),
    "cancelling": Look("Cancelling", "pending", "player-stop"),
    "pending": Look("Pending", "pending", _WAITING),
    "queued": Look("Queued", "pending", _WAITING),
    "backoff": Look("Tries again soon", "pending", "refresh"),
    "ready": Look("Cached", "cached", "bolt"),
    "promoting": Look("Promoting", "running", _RUNNING),
    "referenced": Look("In its source", "cached", "link"),
    "promoted": Look("In the store", "succeeded", "circle-check"),
    "online": Look("Online", "running", "circle-check"),
    "offline": Look("Offline", "failed", "alert-circle"),
    "succeeded": Look("Succeeded", "succeeded", "circle-check"),
    "failed": Look("Failed", "failed", "alert-circle"),
    "lost": Look("Lost", "failed", "alert-triangle"),
    "detached": Look("Detached", "failed", "alert-triangle"),
    "unknown": Look("Unknown", "pending", "circle-dashed"),
    "cancelled": Look("Cancelled", "ended", "ban"),
    "skipped": Look("Skipped", "ended", "player-skip-forward"),
    "superseded": Look("Superseded", "ended", _OVER),
    "gone": Look("Gone", "ended", _OVER),
}


def look_of(state: str) -> Look:
    """Return the look of a state; an unlisted one appears as a plain word, never as an error."""
    return _LOOKS.get(state) or Look(str(state).replace("_", " ").capitalize(), "ended", "circle-dashed")
