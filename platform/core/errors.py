"""The vocabulary of anticipated failure: every app's errors descend from `PlatformError`.

An entry point never invents an error text. It maps `kind` to its own language (an HTTP status, an exit code) and
shows `message`, `hint` and `code` as they are.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar


def in_words(error: Exception) -> str:
    """Return what an error of the system or of a library says, without the number that says the same."""
    return re.sub(r"\[Errno -?\d+\] ", "", str(error)) or type(error).__name__


class ErrorKind(StrEnum):
    """What sort of failure it is; `config.api_errors` maps it to an HTTP status."""

    INVALID = "invalid"
    UNAUTHENTICATED = "unauthenticated"
    DENIED = "denied"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    QUOTA = "quota"
    THROTTLED = "throttled"
    UNAVAILABLE = "unavailable"
    STORAGE_FULL = "storage_full"


class Blame(StrEnum):
    """Whose fault it is: the caller's, ours, or that of a system that we depend on."""

    USER = "user"
    PLATFORM = "platform"
    PROVIDER = "provider"


CHECK_MEMBERSHIP = "Check the name, and that you are a member of its project."


class PlatformError(Exception):
    """An anticipated failure that a person can read and act on.

    `code` is stable and listed in docs/reference/errors.md; `hint` says what to do next, and fits
    every message of its code; `details` carries the values that a program needs to react, and holds JSON types only.
    `for_admins` says what only site admins read in place of the message, such as where on the server something lies.
    """

    code: ClassVar[str] = "core.error"
    kind: ClassVar[ErrorKind] = ErrorKind.INVALID
    blame: ClassVar[Blame] = Blame.USER
    hint: ClassVar[str] = ""

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.for_admins = message
        self.details: Mapping[str, object] = details


class InvalidInput(PlatformError):
    """A value that was sent does not make sense."""

    code = "core.invalid_input"


class NotFound(PlatformError):
    """The thing does not exist, or the caller may not know that it does."""

    code = "core.not_found"
    kind = ErrorKind.NOT_FOUND


class Conflict(PlatformError):
    """The thing is not in the state that the caller assumed."""

    code = "core.conflict"
    kind = ErrorKind.CONFLICT


class TooManyRequests(PlatformError):
    """So many requests of the caller wait that this one was not taken up. Nothing of it was done."""

    code = "core.too_many_requests"
    kind = ErrorKind.THROTTLED
    hint = "Send it again in a few seconds, and fewer at once."
