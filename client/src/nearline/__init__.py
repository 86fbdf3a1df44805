"""Nearline: versioned datasets next to the GPUs that train on them.

`nearline.Client` talks to a server, `nearline.Flow` builds a pipeline, and the functions below serve code inside a
job. What `__all__` names is the promise; each is imported when it is first used, so that none waits for the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearline.client import Client
    from nearline.errors import (
        Conflict,
        Denied,
        Failed,
        InvalidRequest,
        NearlineError,
        NotFound,
        NotSignedIn,
        QuotaExceeded,
        ServerFailure,
        Throttled,
        Unavailable,
    )
    from nearline.flow import Flow
    from nearline.run import (
        checkpoint_saved,
        checkpoints,
        data,
        input,  # noqa: A004 (the word of the product)
        log_artifact,
        log_metric,
        log_param,
        open_data,
        output,
        parameters,
        set_tag,
    )

__all__ = [
    "Client",
    "Conflict",
    "Denied",
    "Failed",
    "Flow",
    "InvalidRequest",
    "NearlineError",
    "NotFound",
    "NotSignedIn",
    "QuotaExceeded",
    "ServerFailure",
    "Throttled",
    "Unavailable",
    "checkpoint_saved",
    "checkpoints",
    "data",
    "input",
    "log_artifact",
    "log_metric",
    "log_param",
    "open_data",
    "output",
    "parameters",
    "set_tag",
]

_HOMES = {"Client": "nearline.client", "Flow": "nearline.flow"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'nearline' has no attribute '{name}'")
    home = _HOMES.get(name) or ("nearline.errors" if name[0].isupper() else "nearline.run")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
