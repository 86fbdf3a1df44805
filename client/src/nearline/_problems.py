"""Problems as the server writes them, and the exception that each status stands for."""

import json
from collections.abc import Mapping

from nearline import errors

# Statuses of what may pass by itself.
PASSING = frozenset({429, 502, 503, 504})
_KINDS: Mapping[int, type[errors.NearlineError]] = {
    400: errors.InvalidRequest,
    401: errors.NotSignedIn,
    403: errors.Denied,
    404: errors.NotFound,
    409: errors.Conflict,
    412: errors.Conflict,
    413: errors.InvalidRequest,
    416: errors.InvalidRequest,
    422: errors.QuotaExceeded,
    429: errors.Throttled,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
}


def kind_of(status: int) -> type[errors.NearlineError]:
    """Return the exception that a status stands for."""
    return _KINDS.get(status, errors.ServerFailure)


def read(status: int, text: str | bytes) -> errors.NearlineError | None:
    """Return the problem that an answer describes; None when it is in another form than ours."""
    try:
        body = json.loads(text)
        title = str(body["title"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return kind_of(status)(
        title, code=body.get("code"), hint=body.get("hint") or None, details=body.get("details") or {}
    )
