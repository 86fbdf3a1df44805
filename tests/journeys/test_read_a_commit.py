"""Files of a commit are read from the running product without a copy: by the SDK, and as a file system."""

import errno
import uuid
from pathlib import Path

import fsspec
import pytest

from nearline import Client
from nearline.filesystem import NearlineFileSystem
from nearline.resources.folders import get_folder
from tests.journeys.digits import contents, write_digits
from tests.journeys.test_sync_then_clone import new_dataset, token_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("read") / "digits"
    made.mkdir()
    write_digits(made)
    return made


@pytest.fixture(scope="module")
def dataset(product, folder) -> str:
    return new_dataset(product, folder)


@pytest.fixture
def files(product) -> NearlineFileSystem:
    return fsspec.filesystem("nearline", url=product.url, token=product.token, skip_instance_cache=True)


def test_a_stream_of_a_commit_is_what_was_synced(product, folder, dataset):
    with Client(product.url, product.token) as client, client.datasets.open_commit(dataset) as commit:
        streamed = dict(commit.stream(shuffle=1))

    assert streamed == contents(folder)


def test_folders_of_this_machine_may_be_given_as_texts(product, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    dataset, cloned, exported = new_dataset(product, tmp_path / "mine"), tmp_path / "cloned", tmp_path / "exported"

    with Client(product.url, product.token) as client:
        client.folders.put(f"{dataset}@main", [f"{tmp_path}/b.txt"])
        client.folders.clone(f"{dataset}@main", str(cloned))
        client.folders.export(f"{dataset}@main", "hf", str(exported))

    assert get_folder(str(cloned)).root == cloned
    assert contents(cloned) == {"a.txt": b"a", "b.txt": b"b"}
    assert (exported / "b.txt").read_text() == "b"


def test_folders_and_files_are_found_by_their_address(files, folder, dataset):
    project, _, _name = dataset.partition("/")

    assert project in files.ls("nearline://", detail=False)
    assert files.ls(f"nearline://{project}", detail=False) == [dataset]
    assert files.ls(f"nearline://{dataset}@main", detail=False) == sorted(
        f"{dataset}@main/{path.name}" for path in folder.iterdir() if path.name != ".nearline"
    )
    path = f"{dataset}/0/0000.png"
    assert (files.isfile(path), files.isdir(f"{dataset}/0"), files.exists(f"{dataset}/none")) == (True, True, False)
    assert files.info(path)["size"] == (folder / "0" / "0000.png").stat().st_size
    assert len(files.glob(f"{dataset}/0/*.png")) == len(list((folder / "0").glob("*.png")))


def test_what_expects_a_file_system_reads_a_commit(product, files, folder, dataset):
    content = (folder / "0" / "0000.png").read_bytes()
    address = f"nearline://{dataset}/0/0000.png"

    with fsspec.open(address, url=product.url, token=product.token) as file:
        assert file.read() == content
    assert files.cat_file(address, start=-10) == content[-10:]
    assert files.cat_file(address, start=2, end=5) == content[2:5]
    with pytest.raises(FileNotFoundError):
        files.open(f"{dataset}/none")
    with pytest.raises(FileNotFoundError):
        files.ls("no-such-project")
    with pytest.raises(IsADirectoryError):
        files.open(dataset)


def test_a_branch_stays_what_it_was_until_it_is_looked_at_anew(product, files, tmp_path):
    mine = tmp_path / "digits"
    mine.mkdir()
    (mine / "a").write_bytes(b"before")
    path = f"{new_dataset(product, mine)}@main/a"
    assert files.cat_file(path) == b"before"
    (mine / "a").write_bytes(b"changed")
    product.cli("data", "sync", cwd=mine)

    assert files.cat_file(path) == b"before"
    files.invalidate_cache()
    assert files.cat_file(path) == b"changed"


@pytest.mark.parametrize("write", ["open", "rm", "mkdir", "cp_file"])
def test_a_commit_cannot_be_written(files, dataset, write):
    path = f"{dataset}/0/0000.png"
    calls = {
        "open": lambda: files.open(path, "wb"),
        "rm": lambda: files.rm(path),
        "mkdir": lambda: files.mkdir(f"{dataset}/new"),
        "cp_file": lambda: files.cp_file(path, f"{path}2"),
    }

    with pytest.raises(OSError) as refusal:
        calls[write]()

    assert refusal.value.errno == errno.EROFS


def test_who_may_not_see_a_project_finds_nothing_in_it(product, dataset):
    name = f"s-{uuid.uuid4().hex[:8]}"
    product.api("POST", "/users", {"username": name, "password": "a long enough password"})
    strangers = fsspec.filesystem("nearline", url=product.url, token=token_of(product, name), skip_instance_cache=True)

    with pytest.raises(FileNotFoundError):
        strangers.ls(f"nearline://{dataset}")
    with pytest.raises(FileNotFoundError):
        strangers.cat_file(f"nearline://{dataset}/0/0000.png")
