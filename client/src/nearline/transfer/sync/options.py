"""How a transfer goes about its work; the same for sending and fetching."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from nearline.content.entries import Entry
from nearline.content.packs import TARGET_PACK_BYTES
from nearline.content.retry import RetryPolicy
from nearline.transfer.local.sharing import Donor
from nearline.transfer.progress import OnProgress, ignore_progress
from nearline.transfer.remote.retry import transfer_policy


def accept_all(_entries: Iterable[Entry]) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Options:
    """`threads` transfers at once, each with one pack of at most 32 MiB (`pack_bytes`) in memory.

    `allow_collisions`: commit names also where they differ only in case or Unicode form. `donor`: a folder of this
    machine from which files are taken before they are fetched. `check` raises for entries that must not be fetched; it
    is called before any of them is.
    """

    threads: int = 4
    policy: RetryPolicy = field(default_factory=transfer_policy)
    on_progress: OnProgress = ignore_progress
    source: str = "cli"
    pack_bytes: int = TARGET_PACK_BYTES
    allow_collisions: bool = False
    donor: Donor | None = None
    check: Callable[[Iterable[Entry]], None] = accept_all
