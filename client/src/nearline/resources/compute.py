"""Compute resources, their nodes and templates."""

from collections.abc import Iterator

from nearline._http import Http
from nearline.models import Resource, Template


class Compute:
    """Where steps run."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> Iterator[Resource]:
        """Yield the resources by name."""
        return map(Resource.read, self._http.list_items("/compute/resources"))

    def list_templates(self, *, project: str | None = None) -> Iterator[Template]:
        """Yield the shapes in which steps can run."""
        return map(Template.read, self._http.list_items("/compute/templates", project=project))
