"""Files that come through the web process, part by part."""

import io
import json

import pytest
from django.test import override_settings

from core.errors import InvalidInput
from datasets.engine.part_frames import PART_BYTES
from datasets.errors import BodyRefused, ManifestRejected, StaleParent, UploadClosed, UploadTooLarge
from datasets.models import Branch, Commit, Pack, UploadPart
from datasets.selectors import files
from datasets.services import tree_edits, upload_parts, uploads
from datasets.workers import collection
from nearline.content.hashing import file_id
from nearline.content.packs import cut_chunks
from tests.factories.datasets import commit_files
from tests.interleaving import happens_after

MTIME_MS = 1_700_000_000_123


def framed(files: dict[str, bytes], *, offset: int = 0, total: int | None = None) -> io.BytesIO:
    described = [{"path": name, "size_bytes": total or len(data), "mtime_ms": MTIME_MS} for name, data in files.items()]
    header = json.dumps({"files": described, "offset": offset}).encode()
    return io.BytesIO(len(header).to_bytes(4, "big") + header + b"".join(files.values()))


@pytest.fixture
def upload(member, dataset):
    return uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="browser").upload


def send(actor, upload, number: int, files: dict[str, bytes], **place: int):
    return upload_parts.receive_part(actor=actor, upload=upload, number=number, read=framed(files, **place).read)


def send_large(actor, upload, number: int, name: str, data: bytes) -> list[int]:
    """Send a large file as a browser does and return where each piece began."""
    begins: list[int] = []
    offset: int | None = 0
    while offset is not None:
        begins.append(offset)
        piece = data[offset : offset + PART_BYTES]
        offset = send(actor, upload, number, {name: piece}, offset=offset, total=len(data)).next_offset
    return begins


def commit(actor, upload, message: str = "Drop", expected: str | None = None) -> Commit:
    return tree_edits.commit_parts(actor=actor, upload=upload, expected_head=expected, message=message)


def read(actor, commit: Commit, path: str) -> bytes:
    return b"".join(files.open_file(actor, commit, path=path.encode()).read())


def noise(size: int) -> bytes:
    """Return bytes that look random and are always the same."""
    from blake3 import blake3

    return blake3(b"noise").digest(size)


def test_parts_in_any_order_and_twice_become_one_commit(member, dataset, upload):
    send(member, upload, 1, {"train/b.txt": b"bb", "train/empty": b""})
    send(member, upload, 0, {"a.txt": b"a", "copy.txt": b"a"})
    again = send(member, upload, 0, {"a.txt": b"never read"})

    made = commit(member, upload, "Two parts")

    assert again == upload_parts.ReceivedPart(files=2, size_bytes=2, next_offset=None)
    assert (made.message, made.source, made.files, made.added) == ("Two parts", "web", 4, 4)
    assert [read(member, made, name) for name in ("a.txt", "copy.txt", "train/b.txt", "train/empty")] == [
        b"a", b"a", b"bb", b"",
    ]  # fmt: skip
    assert Pack.objects.filter(dataset=dataset).count() == 2
    assert list(Branch.objects.values_list("head_id", flat=True)) == [made.id]


def test_asked_again_the_same_commit_is_returned(member, upload):
    send(member, upload, 0, {"a.txt": b"a"})
    first = commit(member, upload)
    upload.refresh_from_db()

    assert commit(member, upload) == first
    assert Commit.objects.count() == 1


def test_a_large_file_comes_in_pieces_and_is_cut_as_a_client_cuts_it(member, upload):
    data = noise(PART_BYTES + (9 << 20))

    begins = send_large(member, upload, 0, "large.bin", data)
    made = commit(member, upload)

    entry = files.open_file(member, made, path=b"large.bin").entry
    assert len(begins) == 2
    assert 16 << 20 < begins[1] < PART_BYTES
    assert entry.content_id == file_id(data)
    assert [blob.content_id for blob in entry.blobs] == [
        file_id(bytes(chunk.data)) for chunk in cut_chunks(io.BytesIO(data), len(data))
    ]


def test_another_process_goes_on_with_a_large_file(member, upload):
    data = noise(PART_BYTES + (9 << 20))
    answer = send(member, upload, 0, {"large.bin": data[:PART_BYTES]}, offset=0, total=len(data))
    upload_parts._hashers._by_part.clear()

    send(member, upload, 0, {"large.bin": data[answer.next_offset :]}, offset=answer.next_offset, total=len(data))

    assert files.open_file(member, commit(member, upload), path=b"large.bin").entry.content_id == file_id(data)


def test_a_piece_that_came_before_is_answered_with_where_to_go_on(member, upload):
    data = noise(PART_BYTES + (9 << 20))
    first = send(member, upload, 0, {"large.bin": data[:PART_BYTES]}, offset=0, total=len(data))

    again = send(member, upload, 0, {"large.bin": data[:PART_BYTES]}, offset=0, total=len(data))

    assert again == first
    with pytest.raises(InvalidInput, match="Not whole yet: 1 file"):
        commit(member, upload)


def test_a_piece_that_comes_while_its_upload_is_cancelled_is_refused(member, upload):
    data = noise(PART_BYTES + 1000)
    first = send(member, upload, 0, {"large.bin": data[:PART_BYTES]}, offset=0, total=len(data))
    rest = {"large.bin": data[first.next_offset :]}

    with (
        happens_after('FROM "datasets_uploadpart"', lambda: uploads.cancel_upload(actor=member, upload=upload)),
        pytest.raises(UploadClosed),
    ):
        send(member, upload, 0, rest, offset=first.next_offset, total=len(data))


def test_what_the_branch_holds_at_a_path_is_not_stored_again(member, dataset, upload):
    before = commit_files(member, dataset, {"a.txt": (b"same", 0o755), "b.txt": b"old"})
    packs = Pack.objects.count()

    send(member, upload, 0, {"a.txt": b"same"})
    assert Pack.objects.count() == packs
    send(member, upload, 1, {"b.txt": b"new"})
    made = commit(member, upload, expected=before.id)

    assert (made.added, made.removed, made.changed) == (0, 0, 1)
    assert files.open_file(member, made, path=b"a.txt").entry.mode == 0o755


def test_files_that_are_there_already_make_no_commit(member, dataset, upload):
    before = commit_files(member, dataset, {"a.txt": b"same"})
    send(member, upload, 0, {"a.txt": b"same"})

    assert commit(member, upload, expected=before.id) == before
    assert Commit.objects.count() == 1


def test_a_branch_that_moved_is_told_and_built_on_when_asked_again(member, dataset, upload):
    send(member, upload, 0, {"mine.txt": b"mine", "both.txt": b"mine"})
    theirs = commit_files(member, dataset, {"theirs.txt": b"theirs", "both.txt": b"theirs"})

    with pytest.raises(StaleParent) as refusal:
        commit(member, upload)
    assert list(Branch.objects.values_list("head_id", flat=True)) == [theirs.id]
    made = commit(member, upload, expected=str(refusal.value.details["head"]))

    assert (made.parent_id, made.files, read(member, made, "both.txt")) == (theirs.id, 3, b"mine")


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a//b", "a/.nearline/x", "n" * 256])
def test_a_name_that_cannot_be_carried_is_refused_with_its_part(member, upload, name):
    with pytest.raises(InvalidInput, match="Nothing of this part was kept"):
        send(member, upload, 0, {"good.txt": b"good", name: b"bad"})

    assert UploadPart.objects.count() == 0


def test_names_that_differ_only_in_case_make_no_commit(member, upload):
    send(member, upload, 0, {"Readme.md": b"one"})
    send(member, upload, 1, {"README.md": b"two"})

    with pytest.raises(ManifestRejected, match="differ only in case"):
        commit(member, upload)
    assert Commit.objects.count() == 0


def test_a_file_where_a_folder_is_makes_no_commit(member, dataset, upload):
    before = commit_files(member, dataset, {"train/a.txt": b"a"})
    send(member, upload, 0, {"train": b"file"})

    with pytest.raises(ManifestRejected):
        commit(member, upload, expected=before.id)
    assert Commit.objects.count() == 1


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\0\0\0\2{}", b"\0\0\0\4junk", b"\xff\xff\xff\xff", framed({"a": b"whole"}).getvalue()[:-1],
        b'\0\0\0\x0c{"files":[]}', framed({"a": b""}, total=-1).getvalue(),
        b"\0\1\0\0" + b"[" * 65536, b'\0\0\0\x1b{"files":[],"offset":1e400}',
    ],
)  # fmt: skip
def test_a_body_that_is_no_part_is_refused(member, upload, body):
    with pytest.raises(BodyRefused):
        upload_parts.receive_part(actor=member, upload=upload, number=0, read=io.BytesIO(body).read)
    assert UploadPart.objects.count() == 0


def test_more_than_the_setting_allows_is_refused_before_it_is_read(member, upload, settings):
    from dataclasses import replace

    limited = replace(settings.NEARLINE, browser_upload_bytes=10, browser_upload_files=2)
    with override_settings(NEARLINE=limited):
        send(member, upload, 0, {"a": b"12345"})

        with pytest.raises(UploadTooLarge):
            send(member, upload, 1, {"b": b"123456"})
        with pytest.raises(UploadTooLarge):
            send(member, upload, 2, {"b": b"1", "c": b"1"})

    assert UploadPart.objects.count() == 1


def test_a_cancelled_upload_takes_nothing_more_and_forgets_its_parts(member, upload):
    send(member, upload, 0, {"a": b"a"})

    uploads.cancel_upload(actor=member, upload=upload)

    assert UploadPart.objects.count() == 0
    with pytest.raises(UploadClosed):
        send(member, upload, 1, {"b": b"b"})


def test_what_arrived_can_be_listed_to_go_on_later(member, upload):
    send(member, upload, 4, {"b": b"bb", "a": b"a"})
    begun = send(member, upload, 6, {"large": noise(PART_BYTES)}, offset=0, total=PART_BYTES + 1)

    arrived = list(upload_parts.list_arrived(actor=member, upload=upload))

    assert [(part.number, part.is_complete) for part in arrived] == [(4, True), (6, False)]
    assert [(entry.path, entry.size) for part in arrived for entry in part.entries] == [
        (b"a", 1),
        (b"b", 2),
        (b"large", begun.next_offset),
    ]


def test_the_parts_of_ended_uploads_are_forgotten(member, upload):
    send(member, upload, 0, {"a": b"a"})
    commit(member, upload)

    collection.expire_uploads()

    assert UploadPart.objects.count() == 0
