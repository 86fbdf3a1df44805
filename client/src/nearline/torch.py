"""Commits as PyTorch datasets: `FileDataset` by index, `SampleStream` in one pass. PyTorch is not installed along.

Both take what `open_commit` and `nearline.open_data` return. Replicas of a gang (`RANK`, `WORLD_SIZE`) and the workers
of a `DataLoader` share a pass: together they get every sample once.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
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

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Return the items of a batch, whose files are read at the same time."""
        paths = [self._paths[index] for index in indices]
        return [self._transform(*pair) for pair in zip(paths, self._commit.read_many(paths), strict=True)]


class SampleStream(IterableDataset):  # type: ignore[misc]
    """The samples of a commit in one pass, read ahead: files of one name up to its first dot, and members of tars.

    With `shuffle` the seed of the order is that number and the epoch, which `set_epoch` sets, also for workers that
    persist. `state_dict` and `load_state_dict` are what a stateful loader asks for, in each of its workers: how many
    samples were given. A pass that no state was loaded for begins with its first sample.
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
        # Shared with the workers: those that persist are told of an epoch by it.
        self._epoch = torch.tensor(0).share_memory_()
        self._position = 0
        self._start = 0

    def set_epoch(self, epoch: int) -> None:
        """Begin another pass, in another order where it is shuffled."""
        self._epoch.fill_(epoch)
        self._position = self._start = 0

    def state_dict(self) -> dict[str, int]:
        """Return where the pass is."""
        return {"epoch": int(self._epoch), "position": self._position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Let the next pass go on from there."""
        self._epoch.fill_(state["epoch"])
        self._position = self._start = state["position"]

    def __iter__(self) -> Iterator[Any]:
        shard, shards = _place()
        seed = None if self._shuffle is None else self._shuffle + int(self._epoch)
        self._position, self._start = self._start, 0
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
    # Replicas come first: where there are fewer parts than shards, each replica still gets as many as the others.
    return number * replicas + rank, replicas * workers
