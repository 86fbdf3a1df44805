"""How pages look: the one look of every state, and the addresses of scripts, styles and icons.

A state has a word, a colour class and an icon: it is never colour alone. The names of what the build made carry a hash;
its manifest lists them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.templatetags.static import static

_FOLDER = "web/dist"
_MANIFEST = Path(__file__).parent / "static" / _FOLDER / "manifest.json"


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


def asset_url(source: str) -> str:
    """Return the address of the file that the build made of a source, such as `src/app.ts`.

    A newer build is seen without a restart. Raises FileNotFoundError before the first one.
    """
    return static(f"{_FOLDER}/{_manifest()[source]['file']}")


def style_url(source: str) -> str:
    """Return the address of the style sheet that the build made of what a script imports."""
    return static(f"{_FOLDER}/{_manifest()[source]['css'][0]}")


def _manifest() -> Mapping[str, Any]:
    try:
        return _read(_MANIFEST.stat().st_mtime_ns)
    except FileNotFoundError as error:
        error.add_note("The user interface is not built. Run: make platform/web/static/web/dist/.built")
        raise


@lru_cache(maxsize=1)
def _read(_modified_at_ns: int) -> Mapping[str, Any]:
    manifest: Mapping[str, Any] = json.loads(_MANIFEST.read_text())
    return manifest
