"""Put a commit into a folder with nothing but a URL and a token, as an init container of a pod does.

`python -m nearline.hydrate URL TARGET`. A call that was killed is repeated and goes on. Exit codes are those of the
command line.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from nearline._http import Http, api_policy
from nearline.cli import formats
from nearline.cli.output import Output, report
from nearline.cli.progress import OutageNotice, progress_of
from nearline.content.entries import Entry
from nearline.content.errors import ContentError
from nearline.content.manifest import check_range
from nearline.errors import INTERRUPTED, Conflict, Failed, NearlineError, NotSignedIn, hint_for
from nearline.hydrate.engine import DEFAULT_THREADS, hydrate
from nearline.hydrate.folder import Existing, FolderTarget, sync_disk
from nearline.hydrate.ports import HydrationProgress
from nearline.models import Commit
from nearline.resources.references import Reference, parse_reference, server_of
from nearline.resources.storage_routes import SyncRoutes
from nearline.transfer.progress import Meter
from nearline.transfer.remote.manifests import check_root
from nearline.transfer.remote.objects import ObjectReader, SignedPacks
from nearline.transfer.remote.retry import transfer_policy
from nearline.transfer.remote.server import ObjectKind

# What a file system puts into its own top folder.
_NOT_OURS = {"lost+found"}


class ResumableFolder(FolderTarget):
    """A folder for one commit, with a marker in it until it is complete.

    An empty folder is filled; one with the marker of this commit is completed; any other may hold nothing that differs
    from the commit. Raises Conflict when the marker is that of another commit.
    """

    def __init__(self, root: Path, commit: str, *, read_only: bool) -> None:
        self._folder = root
        self._marker = root / ".nearline" / "hydration"
        super().__init__(root, read_only=read_only, existing=self._begin(commit))

    def finish(self) -> None:
        """Make the files durable, then remove the marker."""
        if self._marker.exists():
            sync_disk(self._folder)
            self._marker.unlink()
        super().finish()

    def _begin(self, commit: str) -> Existing:
        if self._marker.is_file():
            if self._marker.read_bytes() != commit.encode():
                raise Conflict(
                    f"'{self._folder}' holds a part of another commit.", hint="Empty the folder, or choose another one."
                )
            return Existing.REPLACE
        # A call that was killed here, or met a full disk, leaves at most the draft of a marker.
        ours, draft = self._marker.parent, self._marker.with_suffix(".new")
        ignored = _NOT_OURS | ({ours.name} if set(ours.glob("*")) <= {draft} else set())
        if self._folder.is_dir() and {path.name for path in self._folder.iterdir()} - ignored:
            return Existing.KEEP
        ours.mkdir(parents=True, exist_ok=True)
        draft.write_text(commit)
        draft.replace(self._marker)
        return Existing.REPLACE


def main(arguments: list[str] | None = None) -> int:
    """Run the program and return its exit code."""
    given = _parse(arguments)
    out = Output(is_json=given.json, is_quiet=given.quiet)
    try:
        reference = parse_reference(given.url, url=server_of(given.url))
        commit, done = _hydrate(given, reference, out)
    except NearlineError as error:
        report(error, as_json=given.json)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    if given.json:
        facts = {"files": done.files, "size_bytes": done.size_bytes, "bytes_moved": done.bytes_moved}
        out.json({"commit_id": commit.id, "target": str(given.target), **facts})
    else:
        files, size = formats.count(done.files, "file"), formats.size(done.size_bytes)
        out.done(f"{reference.dataset} at {commit.short} is in {given.target}: {files}, {size}.")
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m nearline.hydrate", description="Put a commit into a folder.")
    parser.add_argument("url", help="the commit: https://SERVER/api/v1/datasets/PROJECT/NAME/commits/REF")
    parser.add_argument("target", type=Path, help="the folder; it is made where it does not exist")
    parser.add_argument(
        "--token-env", default="NEARLINE_TOKEN", metavar="NAME", help="the variable that holds the access token"
    )
    parser.add_argument("--read-only", action="store_true", help="leave files and folders read-only")
    parser.add_argument("--parallel", type=int, default=DEFAULT_THREADS, metavar="N", help="transfers at the same time")
    parser.add_argument("--json", action="store_true", help="print what was done, and errors, as JSON")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    return parser.parse_args(arguments)


def _hydrate(given: argparse.Namespace, reference: Reference, out: Output) -> tuple[Commit, HydrationProgress]:
    token = os.environ.get(given.token_env)
    if not token:
        raise NotSignedIn(f"The variable {given.token_env} holds no token.", hint="Name another by --token-env.")
    notice = OutageNotice(out)
    policy = transfer_policy(notice)
    http = Http(server_of(given.url), token, policy=api_policy(notice))
    try:
        server = SyncRoutes(http, reference)
        commit = server.get_commit(reference.ref or "latest")
        target = ResumableFolder(given.target, commit.id, read_only=given.read_only)
        with progress_of(out) as on_progress:
            meter = Meter(on_progress, "Hydrating", files_total=commit.files, bytes_total=commit.size_bytes)
            done = hydrate(
                SignedPacks(server, policy),
                target,
                _list_entries(ObjectReader(server, policy), commit.root),
                policy=policy,
                threads=given.parallel,
                on_progress=lambda progress: meter.show(files=progress.files, size_bytes=progress.size_bytes),
            )
    except ContentError as error:
        raise Failed(str(error), code=error.code, hint=error.hint) from error
    except FileExistsError as error:
        raise Conflict(
            f"'{error.filename}' is there already, and is not what the commit says.",
            code="client.in_the_way",
            hint="Empty the folder, or choose another one.",
        ) from error
    except OSError as error:
        message = f"Cannot write '{error.filename}': {error.strerror}."
        raise Failed(message, code="client.local_file", hint=hint_for(error)) from error
    finally:
        http.close()
    return commit, done


def _list_entries(reader: ObjectReader, root: str) -> Iterator[Entry]:
    """Yield the entries of a tree; one range is in memory at a time."""
    rows = reader.read((ObjectKind.ROOT, root), lambda view: check_root(root, bytes(view)))
    reader.announce([(ObjectKind.RANGE, row.range_id) for row in rows])
    for row in rows:
        yield from check_range(row, reader.load_range(row.range_id))
