"""The routes of the sync protocol for one dataset: what transfers ask of a server, spoken over HTTP."""

from nearline._http import Http, quoted
from nearline.errors import NotFound
from nearline.models import Commit
from nearline.resources.references import Reference
from nearline.resources.storage_routes import StorageRoutes
from nearline.transfer.remote.server import BranchHead, DamagedPack, UploadSession


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


def _branch(item: dict[str, str | None]) -> BranchHead:
    return BranchHead(name=str(item["name"]), head=item.get("head"))
