"""The routes of a tree that is no commit, such as an output, spoken over HTTP."""

from nearline._http import Http, quoted
from nearline.resources.storage_routes import StorageRoutes


class TreeRoutes(StorageRoutes):
    """Implements what `nearline.transfer.remote.server.Storage` has for those who read."""

    def __init__(self, http: Http, tree: str) -> None:
        super().__init__(http, path_of(tree))


def path_of(tree: str) -> str:
    """Return where the API has a tree."""
    return "/trees" + quoted(tree)
