"""Files are read ahead in the order of the rows that name them, and never too much of them."""

import os
from itertools import count

import pytest

from nearline.content.entries import EntryKind
from nearline.content.hashing import file_id
from nearline.content.packs import THRESHOLD_BYTES
from nearline.errors import Failed
from nearline.transfer.local.reading import read_ahead, read_small
from nearline.transfer.local.walk import LocalFile


def local_file(name: bytes, size: int) -> LocalFile:
    return LocalFile(name, EntryKind.FILE, 0o644, size, 0, 0, 0)


def test_rows_come_in_order_with_the_content_of_those_that_have_a_file(tmp_path):
    names = [b"%05d" % number for number in range(3000)]
    for name in names[::50]:
        (tmp_path / os.fsdecode(name)).write_bytes(name)
    gone = local_file(b"gone", 5)
    rows = [(name, local_file(name, 5) if number % 50 == 0 else None) for number, name in enumerate(names)]

    read = list(read_ahead(os.fsencode(tmp_path), [*rows, (b"gone", gone)], threads=2))

    assert [(name, file) for name, file, _ in read] == [*rows, (b"gone", gone)]
    contents = [content for _, _, content in read]
    assert [content.data for content in contents[:3000:50]] == names[::50]
    assert {content.content_id for content in contents if content} == {file_id(name) for name in names[::50]}
    assert contents.count(None) == 2941


def test_a_file_that_cannot_be_read_has_its_whole_path_where_no_folder_holds_all(tmp_path):
    (tmp_path / "link").symlink_to("elsewhere")  # stands for any file that cannot be opened
    place = tmp_path / "link"

    with pytest.raises(Failed, match=f"^Cannot read '{place}': "):
        read_small(b"", local_file(os.fsencode(place)[1:], 1))
    with pytest.raises(Failed, match=r"^Cannot read 'link': "):
        read_small(os.fsencode(tmp_path), local_file(b"link", 1))


@pytest.mark.parametrize(
    ("file", "most_rows"),
    [(None, 17 * 1024), (local_file(b"gone", 1), 17 * 64), (local_file(b"gone", THRESHOLD_BYTES), 5)],
    ids=["nothing to read", "small files", "files of 16 MiB"],
)
def test_what_is_ahead_is_bounded_in_rows_files_and_bytes(tmp_path, file, most_rows):
    taken = count(1)
    rows = ((next(taken), file) for _ in range(100_000))

    assert next(read_ahead(os.fsencode(tmp_path), rows, threads=2)) == (1, file, None)

    assert next(taken) == most_rows + 1
