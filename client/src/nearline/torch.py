"""Commits as PyTorch datasets: `FileDataset` by index, `SampleStream` in one pass. PyTorch is not installed along.

Both take what `open_commit` and `nearline.open_data` return. Replicas of a gang (`RANK`, `WORLD_SIZE`) and the workers
of a `DataLoader` share a pass: together they get every sample once.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import Dataset, IterableDataset, get_worker_info

from nearline.reading.commit_files import CommitFiles
from nearline.reading.samples import Sample


class FileDataset(Dataset):  # type: ignore[misc]  # PyTorch need not be installed where types are checked
    """The files of a commit that match, by index: `transform` makes an item out of path and content."""

    def __init__(
        self, commit: CommitFiles, glob: str = "**", *, transform: Callable[[str, bytes], Any] = lambda *pair: pair
    ) -> None:
        self._commit = commit
        self._paths = list(commit.paths(glob))
        self._transform = transform

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Any:
        path = self._paths[index]
        return self._transform(path, self._commit.read(path))


class SampleStream(IterableDataset):  # type: ignore[misc]
    """The samples of a commit in one pass, read ahead: files of one name up to its first dot, and members of tars.

    With `shuffle` the seed of the order is that number and the epoch, which `set_epoch` sets. `state_dict` and
    `load_state_dict` are what a stateful loader asks for, in each of its workers: how many samples were given.
    """

    def __init__(
        self,
        commit: CommitFiles,
        glob: str = "**",
        *,
        transform: Callable[[Sample], Any] = lambda sample: sample,
        shuffle: int | None = None,
        buffer: int = 1000,
    ) -> None:
        self._commit = commit
        self._glob = glob
        self._transform = transform
        self._shuffle = shuffle
        self._buffer = buffer
        self._epoch = 0
        self._position = 0

    def set_epoch(self, epoch: int) -> None:
        """Begin another pass, in another order where it is shuffled."""
        self._epoch, self._position = epoch, 0

    def state_dict(self) -> dict[str, int]:
        """Return where the pass is."""
        return {"epoch": self._epoch, "position": self._position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from there."""
        self._epoch, self._position = state["epoch"], state["position"]

    def __iter__(self) -> Iterator[Any]:
        shard, shards = _place()
        seed = None if self._shuffle is None else self._shuffle + self._epoch
        stream = self._commit.samples(
            self._glob, shuffle=seed, buffer=self._buffer, shard=shard, shards=shards, start=self._position
        )
        for sample in stream:
            self._position += 1
            yield self._transform(sample)
        self._position = 0


def _place() -> tuple[int, int]:
    """Return which shard this process reads, and how many there are."""
    rank, replicas = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    worker = get_worker_info()
    number, workers = (worker.id, worker.num_workers) if worker is not None else (0, 1)
    return rank * workers + number, replicas * workers
