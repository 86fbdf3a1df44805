"""Trying again: what may pass is repeated after a random wait that grows (full jitter), the rest is not."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from nearline.errors import Denied, NearlineError, ServerFailure, Unavailable

T = TypeVar("T")

_EXPIRED = "datasets.signature_expired"


@dataclass(frozen=True)
class Patience:
    """How often and how long a transfer tries. Time and chance can be replaced by tests."""

    attempts: int = 8
    base_s: float = 0.25
    longest_s: float = 15.0
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random

    def repeat(self, attempt: Callable[[], T]) -> T:
        """Return what `attempt` returns, repeating it while it fails for reasons that may pass."""
        tried = 0
        while True:
            tried += 1
            try:
                return attempt()
            except NearlineError as error:
                if not may_pass(error) or tried >= self.attempts:
                    raise
                if not is_expired(error):
                    self.sleep(self.chance() * min(self.longest_s, self.base_s * 2**tried))


def is_expired(error: NearlineError) -> bool:
    """Return whether a signed request came after its time, so that a new one is all that is needed."""
    return isinstance(error, Denied) and error.code == _EXPIRED


def may_pass(error: NearlineError) -> bool:
    """Return whether the same thing, done again, may succeed."""
    return isinstance(error, Unavailable | ServerFailure) or is_expired(error)
