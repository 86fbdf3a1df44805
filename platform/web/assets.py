"""Addresses of scripts, styles and icons. Their names carry a hash; the manifest of the build lists them."""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.templatetags.static import static

_FOLDER = "web/dist"
_MANIFEST = Path(__file__).parent / "static" / _FOLDER / "manifest.json"


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
