"""Samples of a commit: grouped by name, each once over all shards, in an order that can be gone on with."""

import io
import random
import sys
import tarfile
from copy import copy
from importlib import import_module
from types import ModuleType, SimpleNamespace

import pytest

from client.tests.fake_server import FakeServer
from client.tests.transfer.folders import Folder
from nearline.errors import InvalidRequest
from nearline.reading.commit_files import CommitFiles

# More than a range holds, so that samples lie across ranges.
NUMBERS = range(3_000)
FILES = {
    f"train/{number:05}.{field}".encode(): f"{number} {field}".encode()
    for number in NUMBERS
    for field in ("cls", "json", "seg.png")
}


def tar(members) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return data.getvalue()


@pytest.fixture(scope="module")
def commit(tmp_path_factory):
    """Return a commit of 3,000 samples, and one of samples in tars and beside them."""
    folder = tmp_path_factory.mktemp("samples")
    server = FakeServer(folder / "server")
    Folder(folder / "folder", server).write(FILES).sync()
    with CommitFiles(server.get_commit("main"), lambda: server) as files:
        yield files


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archives")
    server = FakeServer(folder / "server")
    tars = {
        f"shards/{shard}.tar".encode(): tar(
            {f"{shard}-{number}.{field}": f"{shard} {number}".encode() for number in range(20) for field in ("x", "y")}
        )
        for shard in range(3)
    }
    Folder(folder / "folder", server).write({**tars, b"shards/0.txt": b"beside"}).sync()
    with CommitFiles(server.get_commit("main"), lambda: server) as files:
        yield files


def keys(samples) -> list[str]:
    return [sample["__key__"] for sample in samples]


def test_files_of_one_name_are_one_sample(commit):
    samples = list(commit.samples())

    assert keys(samples) == [f"train/{number:05}" for number in NUMBERS]
    assert samples[7] == {
        "__key__": "train/00007",
        "cls": b"7 cls",
        "json": b"7 json",
        "seg.png": b"7 seg.png",
    }


@pytest.mark.parametrize("shuffle", [None, 5])
def test_over_all_shards_each_sample_comes_once_and_whole(commit, shuffle):
    shards = [list(commit.samples(shuffle=shuffle, shard=shard, shards=7)) for shard in range(7)]

    assert sorted(key for shard in shards for key in keys(shard)) == [f"train/{number:05}" for number in NUMBERS]
    assert {len(sample) for shard in shards for sample in shard} == {4}
    with pytest.raises(InvalidRequest):
        next(commit.samples(shard=7, shards=7))


def test_a_shuffled_pass_has_the_order_of_its_number(commit):
    first, again, other = (keys(commit.samples(shuffle=seed, buffer=50)) for seed in (1, 1, 2))

    assert first == again
    assert first != other
    assert first != sorted(first)


@pytest.mark.parametrize("start", [1, 999, 3_000, 4_000])
def test_a_stream_goes_on_from_where_it_was(commit, start):
    assert keys(commit.samples(shuffle=1, start=start)) == keys(commit.samples(shuffle=1))[start:]


@pytest.mark.parametrize("shuffle", [None, 3])
def test_members_of_tars_are_samples_too_and_can_be_gone_on_with(archives, shuffle):
    samples = list(archives.samples(shuffle=shuffle, buffer=5))

    expected = {f"shards/{shard}.tar/{shard}-{number}" for shard in range(3) for number in range(20)}
    assert set(keys(samples)) == {*expected, "shards/0"}
    assert len(samples) == 61
    by_key = {sample["__key__"]: sample for sample in samples}
    assert by_key["shards/1.tar/1-4"] == {"__key__": "shards/1.tar/1-4", "x": b"1 4", "y": b"1 4"}
    for start in (1, 20, 33, 61):
        assert keys(archives.samples(shuffle=shuffle, buffer=5, start=start)) == keys(samples)[start:]


class Tensor:
    """A number in memory that processes share."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __int__(self) -> int:
        return self.number

    def share_memory_(self) -> "Tensor":
        return self

    def fill_(self, number: int) -> None:
        self.number = number


@pytest.fixture
def torch_module(monkeypatch):
    """`nearline.torch` on what it uses of PyTorch; the worker is what a test says."""
    worker = SimpleNamespace(info=None)
    data = ModuleType("torch.utils.data")
    data.Dataset, data.IterableDataset = type("Dataset", (), {}), type("IterableDataset", (), {})
    data.get_worker_info = lambda: worker.info
    torch = ModuleType("torch")
    torch.tensor = Tensor
    for module in (torch, ModuleType("torch.utils"), data):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, "nearline.torch", raising=False)
    yield SimpleNamespace(module=import_module("nearline.torch"), worker=worker)
    sys.modules.pop("nearline.torch")


def test_a_dataset_gives_files_by_index(commit, torch_module):
    files = torch_module.module.FileDataset(commit, "train/0000?.cls", transform=lambda path, content: (path, content))

    assert (len(files), files[3]) == (10, ("train/00003.cls", b"3 cls"))
    assert files.__getitems__([9, 0]) == [("train/00009.cls", b"9 cls"), ("train/00000.cls", b"0 cls")]


def test_a_pass_that_was_broken_off_begins_anew(commit, torch_module):
    stream = torch_module.module.SampleStream(commit, transform=lambda sample: sample["__key__"])

    next(iter(stream))

    assert list(stream) == [f"train/{number:05}" for number in NUMBERS]


def test_a_worker_that_persists_is_told_of_an_epoch(commit, torch_module):
    stream = torch_module.module.SampleStream(commit, shuffle=1, transform=lambda sample: sample["__key__"])
    in_worker = copy(stream)
    first = list(in_worker)

    stream.set_epoch(1)

    assert list(in_worker) == keys(commit.samples(shuffle=2))
    assert first == keys(commit.samples(shuffle=1))


def test_replicas_get_as_many_parts_as_the_others_where_workers_get_none(commit, torch_module, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    given = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        samples = 0
        for worker in range(40):
            torch_module.worker.info = SimpleNamespace(id=worker, num_workers=40)
            samples += len(list(torch_module.module.SampleStream(commit)))
        given.append(samples)

    assert given == [1_528, 1_472]


def test_replicas_and_workers_share_a_pass_and_each_can_go_on(commit, torch_module, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    given = []
    for rank in range(2):
        for worker in range(3):
            monkeypatch.setenv("RANK", str(rank))
            torch_module.worker.info = SimpleNamespace(id=worker, num_workers=3)
            stream = torch_module.module.SampleStream(commit, shuffle=1, transform=lambda sample: sample["__key__"])
            stream.set_epoch(4)
            begun = iter(stream)
            given += [next(begun) for _ in range(random.Random(rank * 3 + worker).randrange(100))]
            later = torch_module.module.SampleStream(commit, shuffle=1, transform=lambda sample: sample["__key__"])
            later.load_state_dict(stream.state_dict())
            given += later

    assert sorted(given) == [f"train/{number:05}" for number in NUMBERS]
