"""Trees without a history, such as code: their files are sent like those of a commit, and kept by their root."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from nearline.content.entries import Entry
from nearline.content.manifest import build_tree
from nearline.errors import NearlineError
from nearline.transfer.local.scan import Scan
from nearline.transfer.local.walk import Skipped
from nearline.transfer.progress import Meter
from nearline.transfer.remote.manifests import Manifests
from nearline.transfer.remote.packing import KnownContent, PackSender, Upload
from nearline.transfer.remote.server import Storage, UploadSession
from nearline.transfer.sync import local_changes
from nearline.transfer.sync.local_changes import Sending
from nearline.transfer.sync.options import Options
from nearline.transfer.sync.put import list_suspects
from nearline.transfer.sync.upload import missing_packs, put_tree

_RESENDS = 3


class TreeStorage(Storage, Protocol):
    """Where trees are kept."""

    def start_tree(self, client_id: str) -> tuple[UploadSession, Sequence[str]]:
        """Begin a session; return it, and the roots of trees whose content need not be sent again."""

    def save_tree(self, upload_id: str, root: str) -> dict[str, Any]:
        """Keep a tree that was sent. Raises Conflict (`datasets.pack_missing`, `details.packs`)."""


def send_tree(
    storage: TreeStorage,
    files: Mapping[bytes, Path],
    *,
    mtime_ns: int,
    skipped: list[Skipped],
    options: Options | None = None,
) -> dict[str, Any]:
    """Send files under their path in the tree and return what the server says of it.

    All files get one time, so that the same content is the same tree. What cannot be carried is added to `skipped`.
    Raises Failed for a file that cannot be read.
    """
    sending = _Sending(storage, files, mtime_ns, options or Options())
    for _ in range(_RESENDS):
        try:
            answer = sending.run()
            break
        except NearlineError as error:
            lost = missing_packs(error)
            if not lost or sending.lost >= lost:
                raise
            sending.lost |= lost
    skipped += sending.skipped
    return answer


@dataclass
class _Sending:
    """A tree on its way. `lost` are packs that the server misses: what they held is sent again."""

    storage: TreeStorage
    files: Mapping[bytes, Path]
    mtime_ns: int
    options: Options
    lost: set[bytes] = field(default_factory=set)
    skipped: list[Skipped] = field(default_factory=list)

    def run(self) -> dict[str, Any]:
        session, known_roots = self.storage.start_tree(f"{socket.gethostname()}:{os.getpid()}")
        upload = Upload(lambda: session)
        tree = build_tree(self._send_files(upload, known_roots))
        put_tree(self.storage, upload, tree, self.options)
        return self.storage.save_tree(upload.id, tree.root_id)

    def _send_files(self, upload: Upload, known_roots: Sequence[str]) -> list[Entry]:
        """Send what the server has not; return the entries of the tree in order."""
        options, self.skipped = self.options, []
        manifests = Manifests(self.storage, policy=options.policy)
        ranges = {row.range_id: row for root in known_roots for row in manifests.load_root(root)}
        manifests.fetch_ahead(ranges.values())
        known = KnownContent(manifests, ranges, missing_packs=self.lost)
        suspects, names = list_suspects(self.files, self.skipped)
        size = sum(suspect.file.size for suspect in suspects)
        meter = Meter(options.on_progress, "Uploading", files_total=len(suspects), bytes_total=size)
        sender = PackSender(
            self.storage,
            upload,
            known,
            threads=options.threads,
            policy=options.policy,
            meter=meter,
            target_bytes=options.pack_bytes,
        )
        scan = Scan(len(suspects), size, suspects, [], [])
        with sender:
            changes = local_changes.find_changes(
                b"", scan, None, threads=options.threads, meter=meter, sending=Sending(sender, known)
            )
        meter.finish()
        read = [(path, change.after) for change in changes if change.after for path in names[change.path]]
        return [entry._replace(path=path, mtime_ns=self.mtime_ns) for path, entry in sorted(read)]
