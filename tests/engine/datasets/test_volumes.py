"""Claims are named after their copy and are large enough for bytes and inodes."""

import pytest

from datasets.engine import volumes

GIB = 2**30


@pytest.mark.parametrize(
    ("files", "size_bytes", "gib"),
    [
        (1, 1, 1),  # no storage makes smaller ones well
        (10, GIB, 2),  # six parts in a hundred to spare
        (1000, 100 * GIB, 106),
        (627_615, 250 * 10**9, 247),
        (10**6, GIB, 33),  # one inode for each 32 KiB
    ],
)
def test_a_claim_has_room_for_bytes_and_inodes_in_whole_gib(files, size_bytes, gib):
    assert volumes.claim_bytes(files=files, size_bytes=size_bytes) == gib * GIB


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, {"claim": "nl-cc-01m7yzmhg0746wfkd3wr", "sub_path": "files"}),
        ({"sharing": "pool"}, {"claim": "nl-pool-site-1", "sub_path": "cc_01m7yzmhg0746wfkd3wr/files"}),
        (
            {"shared_with": {"res_2": "team-b"}, "namespace": "team-a", "storage_class": "nas"},
            {
                "claim": "nl-cc-01m7yzmhg0746wfkd3wr",
                "sub_path": "files",
                "namespace": "team-a",
                "storage_class": "nas",
            },
        ),
    ],
)
def test_a_copy_is_mounted_from_the_folder_of_its_files_on_a_claim(config, expected):
    assert volumes.source_of("cc_01m7yzmhg0746wfkd3wr", "site_1", config) == {"kind": "volume", **expected}
