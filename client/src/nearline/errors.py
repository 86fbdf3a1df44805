"""What can go wrong, as exceptions: one class per thing that a caller may want to handle differently.

Each carries the server's stable `code`, a `hint` about what to do next, `details` for programs, and the exit code
with which the command line ends.
"""

import errno
from collections.abc import Mapping
from typing import ClassVar

# The exit code of a program that was interrupted from the keyboard.
INTERRUPTED = 130
SHORTER_PATH_HINT = "Use a folder whose path is shorter."
FULL_DISK_HINT = "Free space on the disk, or use another one. Then run the command again."
TAKEN_HINT = "Move what is there away, or choose another path."
DENIED_HINT = "Ask its owner for the right to it, or choose another path."
DENIALS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})

_HINTS = {
    errno.ENAMETOOLONG: SHORTER_PATH_HINT,
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), FULL_DISK_HINT),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR, errno.EISDIR), TAKEN_HINT),
    errno.ENOENT: "Check its name, and that the folder of that name is there.",
}


class NearlineError(Exception):
    """Something failed that was anticipated; the message says what and why."""

    exit_code: ClassVar[int] = 1
    code: str = "client.failed"
    hint: str = ""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.hint = self.hint if hint is None else hint
        self.details: Mapping[str, object] = details or {}

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the way between processes, which keyword-only arguments would not."""
        return (_rebuild, (type(self), self.message, self.code, self.hint, dict(self.details)))

    def to_json(self) -> dict[str, object]:
        """Return the error in the form in which the server writes problems."""
        return {"code": self.code, "title": self.message, "hint": self.hint, "details": dict(self.details)}


class Failed(NearlineError):
    """What was asked for was tried, and ended badly: a run, a verification, a hydration."""


class InvalidRequest(NearlineError):
    """A value that was given does not make sense."""

    exit_code = 2
    code = "client.invalid"


class NotFound(NearlineError):
    """The thing does not exist, or the caller may not know that it does."""

    exit_code = 3
    code = "client.not_found"


class Denied(NearlineError):
    """The caller is known but may not do this."""

    exit_code = 4
    code = "client.denied"


class NotSignedIn(Denied):
    """There is no token, or it is unknown, expired or revoked."""

    code = "client.not_signed_in"
    hint = "Run `nearline login`, or set NEARLINE_TOKEN."


class Conflict(NearlineError):
    """The thing is not in the state that the caller assumed; nothing was changed."""

    exit_code = 5
    code = "client.conflict"


class QuotaExceeded(NearlineError):
    """A limit of the project or of a place is reached."""

    exit_code = 6
    code = "client.quota"


class Unavailable(NearlineError):
    """The server cannot be reached or cannot answer now; trying again later may help."""

    exit_code = 7
    code = "client.unavailable"
    # How long the server asks to be left alone, in seconds.
    retry_after_s: float = 0.0


class Throttled(Unavailable):
    """The server asks for fewer requests."""

    code = "client.throttled"


class ServerFailure(NearlineError):
    """The server broke, or what answers at the address is no Nearline."""

    code = "client.server_failure"


def hint_for(error: OSError, *, denied: str = DENIED_HINT) -> str:
    """Return what to do about what the system refused; empty where nobody but the user can know.

    `denied` is for a right that is missing.
    """
    return denied if error.errno in DENIALS else _HINTS.get(error.errno or 0, "")


def _rebuild(
    kind: type[NearlineError], message: str, code: str, hint: str, details: dict[str, object]
) -> NearlineError:
    return kind(message, code=code, hint=hint, details=details)
