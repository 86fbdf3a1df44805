"""Templates that are not stored, kept as JSON by whoever found them: those made for a size, and those in one pool.

For the platform itself: who may use them was checked when they were found.
"""

from collections.abc import Collection, Mapping
from typing import Any

from django.db.models import QuerySet

from compute.models import Resource, Template
from compute.selectors.pool_places import in_pool
from core.prepared import prepared

_SIZE = ("name", "cpu_millicores", "memory_bytes", "gpu_milli", "pod")


def keep(template: Template) -> dict[str, Any]:
    """Return what `recall` makes a template of again. Needs the resource at hand."""
    return {
        "template": template.pk if template.is_stored else "",
        "resource": template.resource_id,
        "resource_name": template.resource.name,
        "pool": template.pool,
        "size": {name: getattr(template, name) for name in _SIZE},
    }


def recall(records: Mapping[str, Mapping[str, Any]]) -> dict[str, Template]:
    """Return the templates by the same keys, those whose resource is detached left out.

    One that was stored is as its row is now. Where that is deleted, it is as large as it was.
    """
    ids = {each["template"] for each in records.values()} - {""}
    stored = {row.pk: row for row in (_stored(ids) if ids else ())}
    resources = {row.pk: row for row in _attached({each["resource"] for each in records.values()})}
    return {
        key: in_pool(stored[each["template"]], each["pool"])
        if each["template"] in stored
        else Template(resource=resources[each["resource"]], pool=each["pool"], **each["size"])
        for key, each in records.items()
        if each["resource"] in resources
    }


@prepared
def _stored(template_ids: Collection[str]) -> QuerySet[Template]:
    return Template.objects.filter(pk__in=template_ids).select_related("resource").defer("resource__config")


@prepared
def _attached(resource_ids: Collection[str]) -> QuerySet[Resource]:
    return Resource.objects.filter(pk__in=resource_ids, detached_at=None)
