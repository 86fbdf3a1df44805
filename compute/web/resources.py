"""Compute resources, their nodes and their templates."""

from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render

from accounts.web.requests import PageRequest
from compute.models import Resource, Template
from compute.selectors import resources, templates
from compute.web import node_cells
from compute.web.node_cells import NodeView


@dataclass(frozen=True)
class ResourceView:
    """A resource with what stands on it."""

    resource: Resource
    nodes: list[NodeView]
    templates: list[Template]


def compute_page(request: PageRequest) -> HttpResponse:
    """Show where jobs can run."""
    nodes = node_cells.list_node_views(request.actor)
    shapes = list(templates.list_templates(actor=request.actor))
    views = [
        ResourceView(
            resource,
            [node for node in nodes if node.resource == resource.name],
            [shape for shape in shapes if shape.resource_id == resource.pk],
        )
        for resource in resources.list_resources(actor=request.actor)
    ]
    return render(request, "compute/compute.html", {"views": views})
