"""Task queues of tests."""

from core import tasks


class RecordedQueue:
    """A task queue that notes its messages, and runs each of them when a test says so."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, str]]] = []

    def enqueue(self, task, ids):
        self.messages.append((task.name, ids))

    def work(self, *, most=200):
        """Run what was enqueued, and what follows, until nothing is left."""
        for _ in range(most):
            if not self.messages:
                return
            name, ids = self.messages.pop(0)
            tasks.run(name, ids)
        raise AssertionError(f"The messages never end: {self.messages[:3]}")
