"""The routes by which a folder of code becomes a tree of its project, spoken over HTTP."""

from collections.abc import Sequence
from typing import Any

from nearline._http import Http, quoted
from nearline.resources.storage_routes import StorageRoutes
from nearline.transfer.remote.server import UploadSession


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
