"""Reads about resources. Every signed-in person may see them: they are what jobs can be sent to."""

from django.db.models import QuerySet

from accounts.actor import Actor
from compute.errors import ResourceNotFound
from compute.models import Resource


def list_resources(*, actor: Actor) -> QuerySet[Resource]:  # noqa: ARG001 (every actor sees all)
    """Return the attached resources by name, with their templates at hand."""
    return Resource.objects.filter(detached_at=None).prefetch_related("templates").order_by("name")


def get_resource(*, actor: Actor, name: str) -> Resource:
    """Return an attached resource. Raises ResourceNotFound."""
    resource = list_resources(actor=actor).filter(name=name).first()
    if resource is None:
        raise ResourceNotFound(f"There is no compute resource called '{name}'.")
    return resource
