"""Task queues that lose, double and delay messages, so that later ones overtake them, as a broker does on a bad day.

Configured by the environment: CHAOS_SEED, the shares CHAOS_LOST, CHAOS_DOUBLED and CHAOS_DELAYED (0 to 1), and
CHAOS_LOG, a file to which each process appends a line for everything it did to a message. Periodic runs are no
messages: a leader runs them on its own threads.
"""

import os
import random
import threading

from config.worker import CeleryQueue
from core.local_queue import LocalQueue
from core.tasks import Task

_LONGEST_DELAY_S = 1.5


class Chaos:
    """Mixed into a task queue: decides by a seeded chance what happens to each message."""

    def __init__(self) -> None:
        super().__init__()
        self._chance = random.Random(os.environ["CHAOS_SEED"])
        self._lost, self._doubled, self._delayed = (
            float(os.environ[f"CHAOS_{what}"]) for what in ("LOST", "DOUBLED", "DELAYED")
        )
        self._log = os.open(os.environ["CHAOS_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def enqueue(self, task: Task, ids: dict[str, str]) -> None:
        """Lose the message, or carry it once or twice, at once or late."""
        if self._happens(self._lost, "lost", task):
            return
        for _ in range(2 if self._happens(self._doubled, "doubled", task) else 1):
            if self._happens(self._delayed, "delayed", task):
                late = threading.Timer(self._chance.uniform(0, _LONGEST_DELAY_S), super().enqueue, (task, ids))
                late.daemon = True
                late.start()
            else:
                super().enqueue(task, ids)

    def _happens(self, share: float, what: str, task: Task) -> bool:
        happens = self._chance.random() < share
        if happens:
            os.write(self._log, f"{what} {task.name}\n".encode())
        return happens


class ChaoticLocal(Chaos, LocalQueue):
    """The embedded product's queue on a bad day."""


class ChaoticCelery(Chaos, CeleryQueue):
    """Celery's queue on a bad day."""
