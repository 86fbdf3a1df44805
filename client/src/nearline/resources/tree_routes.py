"""The routes of a tree that is no commit, such as an output, spoken over HTTP."""

from collections.abc import Sequence

from nearline._http import Http, quoted
from nearline.resources.storage_routes import StorageRoutes
from nearline.transfer.remote.server import ObjectKind, SignedRequest


class TreeRoutes(StorageRoutes):
    """Implements what `nearline.transfer.remote.server.Storage` has for those who read."""

    def __init__(self, http: Http, tree: str) -> None:
        super().__init__(http)
        self._path = path_of(tree)

    def sign_downloads(self, objects: Sequence[tuple[ObjectKind, str]]) -> list[SignedRequest]:
        """Ask for the right to read objects."""
        return self._sign_downloads(self._path, objects)

    def report_damaged_packs(self, packs: Sequence[str]) -> None:
        """Say which packs were found damaged."""
        self._http.post(self._path + "/damage", {"packs": list(packs)}, may_repeat=True)


def path_of(tree: str) -> str:
    """Return where the API has a tree."""
    return "/trees" + quoted(tree)
