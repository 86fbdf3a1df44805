"""Which volumes a job may name, and where it may have them."""

import pytest

from compute.engine.volumes import JobVolume, describe_fault, read_volumes
from compute.errors import InvalidJobSpec

OFFERS = ["scans:ro", "scratch", "/srv/scans:ro"]


def test_a_volume_has_a_name_a_path_and_perhaps_a_mode():
    assert read_volumes(["scans:/mnt/scans:ro", "/srv/scratch:/srv/scratch", "a:/b:rw"]) == [
        JobVolume("scans", "/mnt/scans", read_only=True),
        JobVolume("/srv/scratch", "/srv/scratch", read_only=False),
        JobVolume("a", "/b", read_only=False),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scans", "The volume 'scans' cannot be read. Write it like NAME:/path, or NAME:/path:ro."),
        ("scans:mnt", "cannot be read"),
        ("scans:/mnt:rx", "cannot be read"),
        ("claim scans:10G:/mnt", "cannot be read"),
        ("scans:/mnt/../etc", "is written in full"),
        ("scans:/mnt//x", "is written in full"),
        ("scans:/mnt/", "is written in full"),
        ("scans:/", "Nothing is mounted at /, where the job and its system have files."),
        ("/:/", "Nothing is mounted at /,"),
        ("scans:/tmp", "Nothing is mounted at /tmp,"),
        ("scans:/data", "Nothing is mounted at /data,"),
        ("scans:/input/train", "Nothing is mounted at /input/train,"),
        ("scans:/output", "Nothing is mounted at /output,"),
        ("scans:/proc/1", "Nothing is mounted at /proc/1,"),
        ("/srv/scans:/data/scans", "Nothing is mounted at /data/scans,"),
    ],
)
def test_paths_are_not_trusted(text, words):
    with pytest.raises(InvalidJobSpec) as refusal:
        read_volumes([text])

    assert words in refusal.value.message


def test_a_folder_of_a_host_covers_nothing_under_its_own_path():
    assert read_volumes(["/data/scans:/data/scans"]) == [JobVolume("/data/scans", "/data/scans", read_only=False)]


@pytest.mark.parametrize("second", ["b:/mnt/a", "b:/mnt/a/b"])
def test_no_volume_is_at_or_below_another(second):
    with pytest.raises(InvalidJobSpec, match="Of its volumes one is at /mnt/a, and another at"):
        read_volumes(["a:/mnt/a", second])


def test_only_what_is_offered_is_given_and_only_as_it_is_offered():
    def fault(text):
        return describe_fault(read_volumes([text]), OFFERS, resource="lab")

    assert fault("scratch:/mnt/a") == fault("scans:/mnt/a:ro") == fault("/srv/scans:/mnt/a:ro") == ""
    assert fault("scans:/mnt/a") == "Jobs on lab only read scans: write scans:/mnt/a:ro."
    offered = "An admin offers: scans:ro, scratch, /srv/scans:ro."
    assert fault("secret:/mnt/a") == f"secret is not offered to jobs on lab. {offered}"
    # What is below an offered folder may be a link by the time it is mounted.
    assert fault("/srv/scans/a:/mnt/a:ro") == f"/srv/scans/a is not offered to jobs on lab. {offered}"
