"""Compute resources, their nodes and templates."""

from collections.abc import Iterator, Mapping, Sequence

from nearline._http import Http, quoted
from nearline.models import Resource, Template


class Compute:
    """Where steps run."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> Iterator[Resource]:
        """Yield the resources by name."""
        return map(Resource.read, self._http.list_items("/compute/resources"))

    def attach(
        self, name: str, kind: str, *, settings: Mapping[str, str] | None = None, sites: Sequence[str] = ()
    ) -> Resource:
        """Attach a resource once it has answered. For site admins. Raises InvalidRequest, which says what is wrong."""
        body = {"name": name, "kind": kind, "settings": dict(settings or {}), "sites": [*sites]}
        return Resource.read(self._http.post("/compute/resources", body))

    def set_sites(self, name: str, sites: Sequence[str]) -> Resource:
        """Set the cache sites that jobs of a resource read, the nearest first. For site admins. Raises NotFound."""
        path = "/compute/resources" + quoted(name)
        return Resource.read(self._http.patch(path, {"sites": [*sites]}))

    def list_templates(self, *, project: str | None = None) -> Iterator[Template]:
        """Yield the shapes in which steps can run."""
        return map(Template.read, self._http.list_items("/compute/templates", project=project))
