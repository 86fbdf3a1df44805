"""Files of a commit as samples: those of one folder that have a name up to its first dot in common, as WebDataset does.

`train/0001.jpg`, `train/0001.cls` and `train/0001.seg.png` are one sample with the key `train/0001` and the fields
`jpg`, `cls` and `seg.png`. The members of a `.tar` are samples in the same way.

Which samples come, and in which order, is known before any content is read: all shards agree on it without asking each
other, and a stream can go on from any position.
"""

import random
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from typing import IO, TypeVar

from nearline.content.entries import Entry, EntryKind
from nearline.content.paths import to_text
from nearline.reading.order import Order
from nearline.reading.tree import TreeFiles

Sample = dict[str, bytes | str]
"""The content of each field, and the key as `__key__`."""
Group = list[Entry]
T = TypeVar("T")

KEY = "__key__"
_CHUNK_SAMPLES = 64


@dataclass(frozen=True)
class Mix:
    """`seed` decides the order; so many samples (`buffer`) are mixed. The chunks of the tree are shuffled besides."""

    seed: int
    buffer: int

    def mixer_of(self, name: object) -> random.Random:
        """Return what decides the order within a part of the pass."""
        return random.Random(f"{self.seed}:{name}")  # noqa: S311 (an order, no secret)


def list_groups(tree: TreeFiles, is_wanted: Callable[[bytes], bool], order: Order, mix: Mix | None) -> Iterator[Group]:
    """Yield the files of each sample of one shard. Links are left out; of all shards each sample comes once."""
    chunks = islice(_list_chunks(tree, is_wanted, order.seed), order.shard, None, order.shards)
    groups = (group for chunk in chunks for group in chunk)
    return iter(groups) if mix is None else mixed(groups, mix.buffer, mix.mixer_of(order.shard))


def mixed(items: Iterable[T], buffer: int, mixer: random.Random) -> Iterator[T]:
    """Yield items in random order, each at most about `buffer` places from where it was."""
    waiting: list[T] = []
    for item in items:
        waiting.append(item)
        if len(waiting) > buffer:
            place = mixer.randrange(len(waiting))
            waiting[place], waiting[-1] = waiting[-1], waiting[place]
            yield waiting.pop()
    mixer.shuffle(waiting)
    yield from waiting


def is_archive(group: Group) -> bool:
    """Say whether these files are a tar of samples."""
    return len(group) == 1 and group[0].path.endswith(b".tar")


def read_archive(path: str, file: IO[bytes]) -> Iterator[Sample]:
    """Yield the samples of a tar in their order. Only plain files count; nothing is unpacked."""
    with tarfile.open(fileobj=file, mode="r|") as archive:
        members = ((member.name, archive.extractfile(member)) for member in archive if member.isfile())
        contents = ((name, opened.read()) for name, opened in members if opened is not None)
        for key, fields in groupby(contents, key=lambda each: split_name(each[0])[0]):
            yield {KEY: f"{path}/{key}", **{split_name(name)[1]: content for name, content in fields}}


def split_name(path: str) -> tuple[str, str]:
    """Return key and field of a path: what comes before and after the first dot of the file's name."""
    folder, slash, name = path.rpartition("/")
    stem, _, field = name.partition(".")
    return folder + slash + stem, field


def _list_chunks(tree: TreeFiles, is_wanted: Callable[[bytes], bool], seed: int | None) -> Iterator[list[Group]]:
    """Yield samples that lie together, the same in every shard."""
    numbers = list(range(len(tree.ranges)))
    shuffler = random.Random(seed)  # noqa: S311 (an order, no secret)
    if seed is not None:
        shuffler.shuffle(numbers)
    for number in numbers:
        chunks = list(_in_chunks(_groups_of_range(tree, number, is_wanted)))
        if seed is not None:
            shuffler.shuffle(chunks)
        yield from chunks


def _groups_of_range(tree: TreeFiles, number: int, is_wanted: Callable[[bytes], bool]) -> Iterator[Group]:
    """Yield the samples that begin in a range, whole."""
    before = _key_of(tree.ranges[number - 1].last_path) if number else None
    selected = (
        entry for entry in _entries_from(tree, number) if entry.kind is EntryKind.FILE and is_wanted(entry.path)
    )
    for key, files in groupby(selected, key=lambda entry: _key_of(entry.path)):
        if key != before:
            yield list(files)


def _entries_from(tree: TreeFiles, number: int) -> Iterator[Entry]:
    """Yield the entries of a range, and those of the next ones that belong to its last sample."""
    yield from tree.list_entries(tree.ranges[number])
    last = _key_of(tree.ranges[number].last_path)
    for row in tree.ranges[number + 1 :]:
        if _key_of(row.first_path) != last:
            return
        yield from (entry for entry in tree.list_entries(row) if _key_of(entry.path) == last)


def _key_of(path: bytes) -> bytes:
    folder, slash, name = path.rpartition(b"/")
    # A tar is a sample of its own, whatever lies beside it.
    return path if name.endswith(b".tar") else folder + slash + name.partition(b".")[0]


def _in_chunks(groups: Iterable[Group]) -> Iterator[list[Group]]:
    source = iter(groups)
    while chunk := list(islice(source, _CHUNK_SAMPLES)):
        # A tar is a chunk by itself: it is as large as many samples.
        archives = [group for group in chunk if is_archive(group)]
        yield from ([group] for group in archives)
        if len(archives) < len(chunk):
            yield [group for group in chunk if not is_archive(group)]


def name_fields(group: Group, contents: Iterable[bytes]) -> Sample:
    """Return a sample out of its files and their contents."""
    names = [split_name(to_text(entry.path)) for entry in group]
    return {KEY: names[0][0], **{field: content for (_, field), content in zip(names, contents, strict=True)}}
