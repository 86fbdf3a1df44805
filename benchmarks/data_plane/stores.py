"""The stores that tools are compared on: versitygw, Ceph's gateway where it is installed, and a folder of this machine.

An S3 server may be as far away as a link's round trip.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.data_plane import ceph
from benchmarks.data_plane.targets import Bucket, Folder, Target
from benchmarks.link import link
from tests.services import find_tools, s3

OURS = "ours"
"""The prefix of our own store in a bucket."""


@dataclass(frozen=True)
class StoreKind:
    """A store that can be started here, or else what it needs."""

    title: str
    start: Callable[[Path], AbstractContextManager[Target]]
    missing: str = ""


def known_stores() -> dict[str, StoreKind]:
    """Return the stores by the names that `BENCH_STORES` gives them."""
    versitygw = find_tools()["versitygw"]
    of_versitygw = "" if versitygw else "versitygw, on the path or by NEARLINE_TEST_VERSITYGW; see CONTRIBUTING.md"
    of_ceph = "" if ceph.is_installed() else "the packages radosgw, ceph-mon, ceph-osd, ceph-mgr and ceph-common"

    @contextmanager
    def open_versitygw(base: Path) -> Iterator[Bucket]:
        assert versitygw is not None
        with s3(versitygw, base) as names:
            keys = names["NEARLINE_TEST_S3_ACCESS_KEY"], names["NEARLINE_TEST_S3_SECRET_KEY"]
            yield Bucket(names["NEARLINE_TEST_S3"], names["NEARLINE_TEST_BUCKET"], *keys)

    @contextmanager
    def open_folder(base: Path) -> Iterator[Folder]:
        (base / "folder").mkdir()
        yield Folder(base / "folder")

    return {
        "versitygw": StoreKind("versitygw", open_versitygw, of_versitygw),
        "ceph": StoreKind("Ceph's gateway", ceph.rgw, of_ceph),
        "folder": StoreKind("a folder", open_folder),
    }


@contextmanager
def at_a_distance(target: Target, round_trip_s: float) -> Iterator[Target]:
    """Yield the target as it is reached over a link with such a round trip; a folder has none."""
    with ExitStack() as stack:
        if round_trip_s and isinstance(target, Bucket):
            port = stack.enter_context(link(urlsplit(target.endpoint).port or 80, round_trip_s=round_trip_s))
            target = replace(target, endpoint=f"http://127.0.0.1:{port}")
        yield target


def settings_of(target: Target) -> dict[str, str]:
    """Return the settings of a product whose store this is. In place of a folder it has the one in its home."""
    match target:
        case Folder():
            return {}
        case Bucket() as bucket:
            return {
                "NEARLINE_STORE_URL": f"s3://{bucket.name}/{OURS}?endpoint={bucket.endpoint}",
                "NEARLINE_STORE_ACCESS_KEY": bucket.access_key,
                "NEARLINE_STORE_SECRET_KEY": bucket.secret_key,
            }
