"""Where the client's settings come from: what is passed, then the environment, then the profile file, then a default.

The profile is a JSON file that only its owner may read. It keeps a token per server, so a token is never sent to a
server that it was not made for.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from nearline._json_files import Malformed, find_text, get_texts, read_object
from nearline.errors import Failed, InvalidRequest

DEFAULT_URL = "http://127.0.0.1:8000"


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
