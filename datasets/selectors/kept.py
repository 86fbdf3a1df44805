"""Values that never change and cost something to make, kept in memory for the next reader. One home for all threads."""

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """The values used last, up to a total weight. One value heavier than that is not kept."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._weight = 0
        self._values: OrderedDict[tuple[str, ...], tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, ...]) -> T | None:
        """Return what is kept under a key; None when nothing is."""
        with self._lock:
            memo = self._values.get(key)
            if memo is None:
                return None
            self._values.move_to_end(key)
            return memo[0]

    def put(self, key: tuple[str, ...], value: T, *, weight: int = 1) -> None:
        """Keep a value, and drop those that were not asked for longest where there is no space."""
        with self._lock:
            if key in self._values or weight > self._capacity:
                return
            self._values[key] = (value, weight)
            self._weight += weight
            while self._weight > self._capacity:
                _, (_, dropped) = self._values.popitem(last=False)
                self._weight -= dropped

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._values.clear()
            self._weight = 0
