"""Where the client's settings come from: what is passed, then the environment, then the profile file, then a default.

The profile is a JSON file that only its owner may read. It keeps a token per server, so a token is never sent to a
server that it was not made for. This and other JSON files of the client's own people may edit by hand, so what is in
them is checked key by key.
"""

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nearline.errors import Failed, InvalidRequest

DEFAULT_URL = "http://127.0.0.1:8000"
_ANY = re.compile(".+")


@dataclass(frozen=True)
class Settings:
    """Which server to talk to, and as whom. `project` is used where a reference names none."""

    url: str
    token: str | None
    project: str | None


@dataclass(frozen=True)
class Profile:
    """What `nearline login` remembers."""

    url: str | None = None
    project: str | None = None
    tokens: Mapping[str, str] = field(default_factory=dict)

    def with_login(self, url: str, token: str) -> "Profile":
        """Return the profile with this server as the one to talk to."""
        return replace(self, url=url, tokens={**self.tokens, url: token})

    def without_login(self, url: str) -> "Profile":
        """Return the profile without the token of a server."""
        return replace(self, tokens={known: token for known, token in self.tokens.items() if known != url})


def read_settings(
    *,
    url: str | None = None,
    token: str | None = None,
    project: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """Return the settings in force. Raises InvalidRequest when the profile or the URL is unreadable."""
    profile = read_profile(environ)
    chosen = normalize_url(url or environ.get("NEARLINE_URL") or profile.url or DEFAULT_URL)
    return Settings(
        url=chosen,
        token=token or environ.get("NEARLINE_TOKEN") or profile.tokens.get(chosen),
        project=project or environ.get("NEARLINE_PROJECT") or profile.project,
    )


def normalize_url(url: str) -> str:
    """Return the address without a slash at its end. Raises InvalidRequest unless it is an http(s) address."""
    scheme, separator, rest = url.strip().partition("://")
    if not separator:
        scheme, rest = "http", scheme
    rest = rest.rstrip("/")
    if scheme not in {"http", "https"} or not rest:
        raise InvalidRequest(
            f"'{url}' is not the address of a server.", hint="Write it like https://nearline.example.org."
        )
    return f"{scheme}://{rest}"


def profile_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the profile is kept."""
    base = environ.get("XDG_CONFIG_HOME")
    folder = Path(base) if base else Path(environ.get("HOME") or Path.home()) / ".config"
    return folder / "nearline" / "config.json"


def read_profile(environ: Mapping[str, str] = os.environ) -> Profile:
    """Return the profile; an empty one where none was written. Raises InvalidRequest when it is damaged."""
    path = profile_path(environ)
    try:
        document = read_object(path)
        return Profile(find_text(document, "url"), find_text(document, "project"), get_texts(document, "tokens"))
    except (FileNotFoundError, NotADirectoryError):
        return Profile()
    except (OSError, Malformed) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidRequest(
            f"The profile {path} cannot be read: {reason}.", hint="Remove it and run `nearline login` again."
        ) from error


def write_profile(profile: Profile, environ: Mapping[str, str] = os.environ) -> Path:
    """Replace the profile in one step, readable by its owner only, and return its path. Raises Failed."""
    path = profile_path(environ)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    text = json.dumps({"url": profile.url, "project": profile.project, "tokens": dict(profile.tokens)}, indent=2)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text + "\n")
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise Failed(
            f"The profile {path} cannot be written: {error.strerror}.",
            code="client.local_file",
            hint="Make its folder writable, or set XDG_CONFIG_HOME to another one, or NEARLINE_TOKEN.",
        ) from error
    return path


class Malformed(Exception):
    """A file holds something else than the client writes; the text says what, naming the key."""


def read_object(path: Path) -> Mapping[str, Any]:
    """Return the object that a file holds. Raises OSError, and Malformed."""
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Malformed("it is not JSON") from error
    if not isinstance(document, dict):
        raise Malformed("it is no JSON object")
    return document


def find_text(document: Mapping[str, Any], key: str, form: re.Pattern[str] = _ANY) -> str | None:
    """Return the text under a key; None where there is none. Raises Malformed for anything else."""
    value = document.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise Malformed(f"'{key}' is no text")
    if not (value.isprintable() and form.fullmatch(value)):
        raise Malformed(f"'{key}' is not valid")
    return value


def get_text(document: Mapping[str, Any], key: str, form: re.Pattern[str] = _ANY) -> str:
    """Return the text under a key. Raises Malformed where there is none, and for anything else."""
    value = find_text(document, key, form)
    if value is None:
        raise Malformed(f"'{key}' is missing")
    return value


def get_texts(document: Mapping[str, Any], key: str) -> Mapping[str, str]:
    """Return the texts under a key by their names; none where the key is missing. Raises Malformed."""
    values = document.get(key) or {}
    if not isinstance(values, dict):
        raise Malformed(f"'{key}' is no JSON object")
    return {name: get_text(values, name) for name in values}
