"""A server for one dataset that keeps all in a folder and honours the sync protocol, its refusals included.

It survives its process, so that drills can kill the client at any point and look at what is left. `before` makes a
method fail, or do something else first: a storm, a lie, a lost race.
"""

import fcntl
import json
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

from client.tests.pack_check import check_pack
from nearline.content.errors import ContentError
from nearline.content.hashing import file_id, sha256_hex
from nearline.content.manifest import check_range, decode_root, load_range, root_id
from nearline.content.packs import read_footer
from nearline.errors import Conflict, Denied, InvalidRequest, NotFound
from nearline.models import Commit
from nearline.transfer.remote.server import (
    MAX_OFFERS,
    BranchHead,
    DamagedPack,
    ObjectKind,
    OfferAnswer,
    SignedRequest,
    UploadSession,
)

MAX_DOWNLOADS = 64


class FakeServer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for kind in ObjectKind:
            (folder / kind).mkdir(parents=True, exist_ok=True)
        self.calls: Counter[str] = Counter()
        self.bytes_received = 0
        self.bytes_sent = 0
        self.most_at_once = 0
        self.before: dict[str, list] = {}
        self.signature_age = 0
        self._at_once = 0
        self._lock = threading.RLock()
        with self._state() as state:
            state.setdefault("branches", {"main": None})
            state.setdefault("commits", {})
            state.setdefault("uploads", {})
            state.setdefault("packs", {})
            state.setdefault("sizes", {})
            state.setdefault("keys", {})

    # What tests look at and arrange

    @property
    def commits(self) -> list[dict]:
        """All commits of the main branch, oldest first."""
        with self._state() as state:
            chain, commit = [], state["branches"]["main"]
            while commit:
                chain.append(state["commits"][commit])
                commit = state["commits"][commit]["parent"]
            return chain[::-1]

    def fail(self, method: str, *errors) -> None:
        """Make the next calls of a method fail with these errors, or call them first when they are functions."""
        self.before.setdefault(method, []).extend(errors)

    def lose_packs(self, count: int) -> None:
        """Lose packs as a garbage collection would, and refuse the commit that needs them."""
        lost = sorted(path.name for path in self.object_path(ObjectKind.PACK, "").iterdir())[:count]
        with self._state() as state:
            for name in lost:
                self.object_path(ObjectKind.PACK, name).unlink()
                del state["packs"][name]
        raise Conflict("Packs are missing.", code="datasets.pack_missing", details={"packs": lost})

    def tree(self, root: str | None = None) -> dict[bytes, bytes]:
        """The content of a commit's tree, read from the stored bytes only."""
        root = root or (self.commits[-1]["root"] if self.commits else None)
        if root is None:
            return {}
        files = {}
        for entry in self.entries(root):
            files[entry.path] = entry.target or b"".join(
                self.object_path(ObjectKind.PACK, blob.pack.hex()).read_bytes()[blob.offset : blob.offset + blob.size]
                for blob in entry.blobs
            )
            assert file_id(files[entry.path]) == entry.content_id
        return files

    def entries(self, root: str):
        for row in decode_root(self.object_path(ObjectKind.ROOT, root).read_bytes()):
            yield from check_range(row, load_range(row.range_id, self._read_object))

    def _read_object(self, range_id: str) -> bytes:
        return self.object_path(ObjectKind.RANGE, range_id).read_bytes()

    def object_path(self, kind: str, name: str) -> Path:
        return self.folder / kind / name

    # The protocol

    def list_branches(self):
        self._called("list_branches")
        with self._state() as state:
            return [BranchHead(name, head) for name, head in state["branches"].items()]

    def create_branch(self, name, at):
        self._called("create_branch")
        with self._state() as state:
            state["branches"][name] = self._resolve(state, at)
            return BranchHead(name, state["branches"][name])

    def get_commit(self, ref):
        self._called("get_commit")
        with self._state() as state:
            return Commit.read(state["commits"][self._resolve(state, ref)])

    def start_upload(self, branch, client_id):
        self._called("start_upload")
        with self._state() as state:
            if branch not in state["branches"]:
                raise NotFound("No such branch.")
            upload = f"upload-{len(state['uploads'])}"
            state["uploads"][upload] = branch
            head = state["branches"][branch]
            root = head and state["commits"][head]["root"]
            return UploadSession(upload, branch, head, root, takes_deltas=True)

    def offer_packs(self, upload_id, packs):
        self._called("offer_packs")
        assert 0 < len(packs) <= MAX_OFFERS
        answers = []
        with self._state() as state:
            for pack in packs:
                state["sizes"][pack.id] = pack.size_bytes
                is_damaged = state["packs"].get(pack.id) == "damaged"
                if not is_damaged and self._is_stored(pack.id, pack.size_bytes):
                    state["packs"][pack.id] = "complete"
                if state["packs"].get(pack.id) == "complete":
                    answers.append(OfferAnswer(pack.id, None))
                else:
                    state["packs"][pack.id] = "damaged" if is_damaged else "pending"
                    answers.append(OfferAnswer(pack.id, self._sign("PUT", ObjectKind.PACK, pack.id, pack.size_bytes)))
        return answers

    def complete_packs(self, upload_id, packs):
        self._called("complete_packs")
        assert 0 < len(packs) <= MAX_OFFERS
        with self._state() as state:
            missing = [name for name in packs if not self._arrived(state, name)]
            state["packs"].update({name: "complete" for name in packs if name not in missing})
            if missing:
                raise Conflict("Packs did not arrive.", code="datasets.pack_missing", details={"packs": missing})

    def list_damaged_packs(self):
        self._called("list_damaged_packs")
        with self._state() as state:
            return [DamagedPack(name, state["sizes"][name]) for name, now in state["packs"].items() if now == "damaged"]

    def report_damaged_packs(self, packs):
        self._called("report_damaged_packs")
        with self._state() as state:
            for name in packs:
                if not self._is_whole(name):
                    state["packs"][name] = "damaged"

    def offer_manifests(self, upload_id, objects):
        self._called("offer_manifests")
        assert 0 < len(objects) <= MAX_OFFERS
        return [
            OfferAnswer(
                item.id,
                None
                if self.object_path(item.kind, item.id).exists()
                else self._sign("PUT", item.kind, item.id, item.size_bytes, item.sha256),
            )
            for item in objects
        ]

    def commit(self, upload_id, *, root, expected_head, message, source, idempotency_key, allow_collisions=False):
        self._called("commit")
        with self._state() as state:
            if idempotency_key in state["keys"]:
                return Commit.read(state["commits"][state["keys"][idempotency_key]])
            branch = state["uploads"][upload_id]
            head = state["branches"][branch]
            if head != expected_head:
                raise Conflict("The branch moved.", code="datasets.stale_parent", details={"head": head})
            entries = self._check_tree(state, root)
            before = {e.path: e.identity for e in self.entries(state["commits"][head]["root"])} if head else {}
            after = {entry.path: entry.identity for entry in entries}
            record = {"root": root, "parent": head, "message": message, "n": len(state["commits"])}
            commit = file_id(json.dumps(record).encode()).hex()
            state["commits"][commit] = {
                "id": commit,
                "short": commit[:8],
                "parent": head,
                "root": root,
                "message": message,
                "author": "someone",
                "source": source,
                "allow_collisions": allow_collisions,
                "created_at": "2026-11-21T00:00:00+00:00",
                "files": len(entries),
                "size_bytes": sum(entry.size for entry in entries),
                "added": len(after.keys() - before.keys()),
                "removed": len(before.keys() - after.keys()),
                "changed": sum(before[path] != after[path] for path in after.keys() & before.keys()),
            }
            state["branches"][branch] = commit
            state["keys"][idempotency_key] = commit
            result = Commit.read(state["commits"][commit])
        self._called("committed")
        return result

    def sign_downloads(self, objects):
        self._called("sign_downloads")
        assert 0 < len(objects) <= MAX_DOWNLOADS
        return [self._sign("GET", kind, name, 0) for kind, name in objects]

    def send(self, request, *parts):
        with self._counted():
            self._send(request, b"".join(parts), None)

    def receive(self, request, allocate, byte_range=None):
        with self._counted():
            data = self._send(request, None, byte_range)
        view = allocate(len(data))
        view[:] = data
        return view

    def _send(self, request, body, byte_range):
        replaced = self._called("send") or self._called("put" if request.method == "PUT" else "get")
        age, kind, name, size, sha256 = request.url.split("/")
        if int(age) < self.signature_age:
            raise Denied("Too late.", code="datasets.signature_expired")
        path = self.object_path(kind, name)
        if request.method == "PUT":
            if len(body) != int(size) or sha256_hex(body) != sha256:
                raise InvalidRequest("Not what was announced.", code="datasets.body_refused")
            if replaced is not None:
                return b""  # a lie: nothing is stored
            temporary = path.with_name(f"{name}.{threading.get_ident()}.new")
            temporary.write_bytes(body)
            temporary.replace(path)
            with self._lock:
                self.bytes_received += len(body)
            return b""
        if not path.exists():
            raise NotFound("No such object.")
        data = path.read_bytes()
        if byte_range is not None:
            data = data[byte_range[0] : byte_range[0] + byte_range[1]]
        with self._lock:
            self.bytes_sent += len(data)
        return data if replaced is None else replaced(data)

    # How it works inside

    @contextmanager
    def _counted(self):
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            yield
        finally:
            with self._lock:
                self._at_once -= 1

    def _called(self, method):
        with self._lock:
            self.calls[method] += 1
            planned = self.before.get(method)
            step = planned.pop(0) if planned else None
        if isinstance(step, Exception):
            raise step
        return step() if callable(step) else step

    def _sign(self, method, kind, name, size, sha256=None):
        return SignedRequest(method, f"{self.signature_age}/{kind}/{name}/{size}/{sha256 or name}", {})

    def _is_stored(self, name, size):
        path = self.object_path(ObjectKind.PACK, name)
        return path.exists() and path.stat().st_size == size

    def _blobs_of(self, state, name):
        data = self.object_path(ObjectKind.PACK, name).read_bytes()
        return read_footer(data) if state["packs"][name] == "damaged" else check_pack(data)

    def _is_whole(self, name):
        path = self.object_path(ObjectKind.PACK, name)
        return path.exists() and sha256_hex(path.read_bytes()) == name

    def _arrived(self, state, name):
        path = self.object_path(ObjectKind.PACK, name)
        return self._is_whole(name) if state["packs"].get(name) == "damaged" else path.exists()

    def _resolve(self, state, ref):
        ref = "main" if ref == "latest" else ref
        commit = state["branches"].get(ref, ref)
        if commit not in state["commits"]:
            raise NotFound(f"There is no '{ref}'.")
        return commit

    def _check_tree(self, state, root):
        try:
            data = self.object_path(ObjectKind.ROOT, root).read_bytes()
            assert root_id(data) == root
            entries = list(self.entries(root))
        except ContentError as error:
            raise InvalidRequest(str(error), code="datasets.manifest_rejected") from error
        packs = {blob.pack.hex() for entry in entries for blob in entry.blobs}
        missing = sorted(name for name in packs if state["packs"].get(name) not in {"complete", "damaged"})
        if missing:
            raise Conflict("Packs are missing.", code="datasets.pack_missing", details={"packs": missing})
        extents = {name: set(self._blobs_of(state, name)) for name in packs}
        for entry in entries:
            for blob in entry.blobs:
                assert (blob.content_id, blob.offset, blob.size) in extents[blob.pack.hex()]
        return entries

    @contextmanager
    def _state(self):
        path = self.folder / "state.json"
        with self._lock, (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = json.loads(path.read_text()) if path.exists() else {}
            before = json.dumps(state)
            try:
                yield state
            finally:
                after = json.dumps(state)
                if after != before:
                    temporary = path.with_suffix(".new")
                    temporary.write_text(after)
                    temporary.replace(path)
