"""The routes of transfers, spoken over HTTP: how content goes to a store and comes from it, for whatever has files."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from nearline._http import Http, quoted
from nearline.content.hashing import Buffer
from nearline.errors import NotFound
from nearline.models import Commit
from nearline.resources.references import Reference
from nearline.transfer.remote.server import (
    Allocate,
    BranchHead,
    DamagedPack,
    ObjectKind,
    Offer,
    OfferAnswer,
    SignedRequest,
    UploadSession,
)


class StorageRoutes:
    """Implements `nearline.transfer.remote.server.Storage`. What is read is below `path`."""

    def __init__(self, http: Http, path: str) -> None:
        self._http = http
        self._path = path
        # A transfer has done much already when its server goes away: it waits for longer than other commands.
        self._api = http.with_long_retries()

    def offer_packs(self, upload_id: str, packs: Sequence[Offer]) -> list[OfferAnswer]:
        """Ask which packs are wanted, and for the right to store them."""
        offers = [{"sha256": pack.sha256, "size_bytes": pack.size_bytes, **_md5(pack)} for pack in packs]
        body = {"packs": offers}
        answer = self._api.post("/uploads" + quoted(upload_id) + "/packs", body, may_repeat=True)
        return [OfferAnswer(item["sha256"], read_signed(item.get("request"))) for item in answer["items"]]

    def complete_packs(self, upload_id: str, packs: Sequence[str]) -> None:
        """Say that packs were stored; the server looks for itself. Raises Conflict when one is missing."""
        self._api.post("/uploads" + quoted(upload_id) + "/packs/complete", {"packs": list(packs)}, may_repeat=True)

    def offer_manifests(self, upload_id: str, objects: Sequence[Offer]) -> list[OfferAnswer]:
        """Ask which ranges and roots are wanted, and for the right to store them."""
        offers = [
            {"kind": str(item.kind), "id": item.id, "size_bytes": item.size_bytes, "sha256": item.sha256, **_md5(item)}
            for item in objects
        ]
        answer = self._api.post("/uploads" + quoted(upload_id) + "/manifests", {"objects": offers}, may_repeat=True)
        return [OfferAnswer(item["id"], read_signed(item.get("request"))) for item in answer["items"]]

    def send(self, request: SignedRequest, *parts: Buffer) -> None:
        """Make one attempt at storing a body, given in parts."""
        self._http.send_signed(request.method, request.url, request.headers, *parts)

    def receive(
        self, request: SignedRequest, allocate: Allocate, byte_range: tuple[int, int] | None = None
    ) -> memoryview:
        """Make one attempt at reading an object, or a part of it."""
        return self._http.receive_signed(request.method, request.url, request.headers, allocate, byte_range=byte_range)

    def sign_downloads(self, objects: Sequence[tuple[ObjectKind, str]]) -> list[SignedRequest]:
        """Ask for the right to read objects."""
        body = {"objects": [{"kind": str(kind), "id": name} for kind, name in objects]}
        answer = self._api.post(self._path + "/downloads", body, may_repeat=True)
        return [request for item in answer["items"] if (request := read_signed(item["request"]))]

    def report_damaged_packs(self, packs: Sequence[str]) -> None:
        """Say which packs were found damaged."""
        self._http.post(self._path + "/damage", {"packs": list(packs)}, may_repeat=True)


class SyncRoutes(StorageRoutes):
    """Implements `nearline.transfer.remote.server.Server`."""

    def __init__(self, http: Http, reference: Reference) -> None:
        super().__init__(http, "/datasets" + quoted(reference.project, reference.name))

    def list_branches(self) -> list[BranchHead]:
        """Return the branches and their newest commits."""
        return [_branch(item) for item in self._api.get(self._path + "/branches")["items"]]

    def create_branch(self, name: str, at: str) -> BranchHead:
        """Start a branch at a commit. Raises Conflict when the name is taken."""
        return _branch(self._api.post(self._path + "/branches", {"name": name, "at": at}))

    def get_commit(self, ref: str) -> Commit:
        """Return a commit by branch, tag, id or `latest`. Raises NotFound."""
        return Commit.read(self._api.get(self._path + "/commits" + quoted(ref)))

    def start_upload(self, branch: str, client_id: str) -> UploadSession:
        """Open a session that packs and manifests are uploaded in."""
        body = {"branch": branch, "client_id": client_id}
        answer = self._api.post(self._path + "/uploads", body, may_repeat=True)
        return UploadSession(
            id=answer["id"],
            branch=answer["branch"],
            head=answer.get("head"),
            root=answer.get("root"),
            needs_md5=answer.get("put_proof") == "content-md5",
            takes_deltas=answer.get("takes_deltas", False),
        )

    def commit(
        self,
        upload_id: str,
        *,
        root: str,
        expected_head: str | None,
        message: str,
        source: str,
        idempotency_key: str,
        allow_collisions: bool = False,
    ) -> Commit:
        """Record a commit; the same key gives the same one. Raises Conflict."""
        body = {
            "root": root,
            "expected_head": expected_head,
            "message": message,
            "source": source,
            "idempotency_key": idempotency_key,
            # Told only where it matters: an older server does not know the field.
            **({"allow_collisions": True} if allow_collisions else {}),
        }
        return Commit.read(self._api.post("/uploads" + quoted(upload_id) + "/commit", body, may_repeat=True))

    def list_damaged_packs(self) -> list[DamagedPack]:
        """Return the packs that the store does not hold as their names say."""
        try:
            answer = self._api.get(self._path + "/damage")
        except NotFound:
            # An older server has no such route.
            return []
        return [DamagedPack(item["sha256"], item["size_bytes"]) for item in answer["packs"]]


class TreeRoutes(StorageRoutes):
    """Implements what `nearline.transfer.remote.server.Storage` has for those who read."""

    def __init__(self, http: Http, tree: str) -> None:
        super().__init__(http, tree_path(tree))


class CodeRoutes(StorageRoutes):
    """Implements `nearline.transfer.sync.tree.TreeStorage` for the code of a project."""

    def __init__(self, http: Http, project: str) -> None:
        super().__init__(http, path="")  # The upload's, once there is one.
        self._project = project

    def start_tree(self, client_id: str) -> tuple[UploadSession, Sequence[str]]:
        """Open a session, and return the roots of trees whose content need not be sent. Raises NotFound."""
        body = {"project": self._project, "client_id": client_id}
        answer = self._api.post("/code/uploads", body, may_repeat=True)
        self._path = "/uploads" + quoted(answer["id"])
        session = UploadSession(
            answer["id"], branch="", head=None, root=None, needs_md5=answer["put_proof"] == "content-md5"
        )
        return session, answer["known_roots"]

    def report_damaged_packs(self, packs: Sequence[str]) -> None:
        """Do nothing: only manifests of code are read."""

    def save_tree(self, upload_id: str, root: str) -> dict[str, Any]:
        """Keep the uploaded tree. Raises Conflict (`datasets.pack_missing`, `details.packs`)."""
        answer: dict[str, Any] = self._api.post("/code/trees", {"upload": upload_id, "root": root}, may_repeat=True)
        return answer


def tree_path(tree: str) -> str:
    """Return where the API has a tree."""
    return "/trees" + quoted(tree)


def read_signed(item: dict[str, object] | None) -> SignedRequest | None:
    """Read a signed request from an answer; None where there is none."""
    if item is None:
        return None
    headers = item.get("headers")
    expires_at = item.get("expires_at")
    return SignedRequest(
        method=str(item["method"]),
        url=str(item["url"]),
        headers=headers if isinstance(headers, dict) else {},
        expires_at=datetime.fromisoformat(str(expires_at)).timestamp() if expires_at else None,
    )


def _branch(item: dict[str, str | None]) -> BranchHead:
    return BranchHead(name=str(item["name"]), head=item.get("head"))


def _md5(offer: Offer) -> dict[str, str]:
    return {"md5": offer.md5} if offer.md5 else {}
