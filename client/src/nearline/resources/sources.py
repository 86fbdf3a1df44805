"""Sources of files that are imported in place, and the imports."""

import time
from collections.abc import Iterator, Sequence

from nearline._http import Http, Json, quoted
from nearline.models import Import, Source

_POLL_S = 1.0


class Sources:
    """Folders and parts of buckets that projects may import from. Site admins set and remove them."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> Iterator[Source]:
        """Yield the sources that your projects may import from, oldest first."""
        return map(Source.read, self._http.list_items("/sources"))

    def set(
        self,
        name: str,
        location: str = "",
        *,
        access_key: str = "",
        secret_key: str = "",
        projects: Sequence[str] | None = None,
    ) -> Source:
        """Let projects import from a folder of the server, `s3://bucket/prefix?endpoint=…&region=…`, or `site://NAME`.

        Of a source that is there, what is not given stays. Raises InvalidRequest.
        """
        body: Json = {"location": location, "access_key": access_key, "secret_key": secret_key}
        body["projects"] = None if projects is None else [*projects]
        return Source.read(self._http.put("/sources" + quoted(name), body))

    def check_source(self, name: str) -> Source:
        """See whether a source can be read, and have its imports compared with it; `read_at` tells when that is done.

        Raises Conflict where it cannot be read.
        """
        return Source.read(self._http.post("/sources" + quoted(name) + "/check", {}))

    def remove(self, name: str) -> None:
        """Forget a source. Its files are not touched. Raises Conflict while datasets need it."""
        self._http.delete("/sources" + quoted(name))

    def preview(self, name: str, project: str, prefix: str = "") -> Json:
        """Return how many `files` and `size_bytes` a folder of a source holds; at most 10,000 files are counted.

        Raises NotFound for a source that the project may not import from, and Conflict for a folder that is not in it.
        """
        return self._http.get(f"/projects{quoted(project)}/sources{quoted(name)}/files", prefix=prefix)

    def get_import(self, import_id: str) -> Import:
        """Return an import in place. Raises NotFound."""
        return Import.read(self._http.get("/imports" + quoted(import_id)))

    def promote(self, import_id: str) -> Import:
        """Have the content of an import copied into the store. Raises Conflict when there is nothing to promote."""
        return Import.read(self._http.post("/imports" + quoted(import_id) + "/promote", {}))

    def cancel(self, import_id: str) -> Import:
        """Have an import stopped that is under way, or the promotion of one. Raises Conflict when neither is."""
        return Import.read(self._http.post("/imports" + quoted(import_id) + "/cancel", {}))

    def check(self, import_id: str) -> Import:
        """Have the files of an import compared with what they were; returns when that is done."""
        asked = Import.read(self._http.post("/imports" + quoted(import_id) + "/check", {}))
        while (record := self.get_import(import_id)).checked_at == asked.checked_at:
            time.sleep(_POLL_S)
        return record

    def wait(self, import_id: str) -> Import:
        """Return an import once nobody works on it any more."""
        while (record := self.get_import(import_id)).is_working:
            time.sleep(_POLL_S)
        return record
