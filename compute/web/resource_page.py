"""One compute resource: its nodes and what everybody holds of them, its storage, its jobs, its cached commits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.permissions import Actor
from accounts.web.requests import PageRequest
from compute.engine.states import HOLDING
from compute.models import Resource
from compute.selectors import failures, job_rows, jobs, resource_events
from compute.selectors import resources as selectors
from compute.services import lost_places, resources
from compute.web import node_cells
from compute.web.node_cells import NodeView
from core import hosts, units
from core.errors import InvalidInput
from core.units import count_of
from datasets.selectors import caches

_ROWS = 50
_POOL_LABELS = (
    *("pool", "nodepool", "node-pool", "agentpool", "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup"),
    *("topology.kubernetes.io/zone", "nvidia.com/mig.strategy", "nvidia.com/gpu.sharing-strategy"),
)


@dataclass(frozen=True)
class Amounts:
    """What there is of one thing, and who holds it. `total` counts what is foreign too."""

    total: int
    ours: int
    foreign: int

    @property
    def free(self) -> int:
        """What nobody holds."""
        return max(0, self.total - self.ours - self.foreign)


@dataclass(frozen=True)
class NodeLine:
    """A node with who holds what of it. `holders` are the pods of others that hold its GPUs, for site admins."""

    node: NodeView
    labels: Sequence[str]
    gpus: Amounts
    cpu: Amounts
    memory: Amounts
    holders: Sequence[str]


def resource_page(request: PageRequest, name: str) -> HttpResponse:
    """Show one resource; htmx asks for its inside again."""
    actor = request.actor
    resource = selectors.get_resource(actor=actor, name=name)
    foreign = resource.facts.get("foreign", {})
    lines = [
        _line_of(node, foreign.get(node.name, {}), actor) for node in node_cells.list_node_views(actor, resource=name)
    ]
    live = jobs.list_jobs(actor=actor, with_parts=True).filter(resource=resource, is_live=True)
    context = {
        "resource": resource,
        "host": hosts.name_of(resource.host),
        "is_host_away": resource.is_lost and hosts.is_away(resource.host),
        "failures": failures.of_resource(resource),
        "lines": lines,
        "nodes_ready": sum(line.node.is_ready for line in lines),
        "are_drained": bool(lines) and all(line.node.is_drained for line in lines),
        "gpus": _sum([line.gpus for line in lines]),
        "gpu_models": sorted({node_cells.short_model(line.node.gpu_model) for line in lines if line.node.gpu_model}),
        "node_faults": resource.facts.get("faults", {}),
        "nodes_at": _moment(resource.facts.get("nodes_at")),
        "cluster": selectors.find_cluster_facts(resource),
        "warnings": selectors.list_cluster_warnings(resource),
        "running": job_rows.read_rows(actor=actor, jobs=live.filter(state__in=sorted(HOLDING)).defer("spec")[:_ROWS]),
        "counts": selectors.count_live_jobs(resource),
        "copies": _copies_of(actor, resource),
        "arrays": caches.list_arrays(resource.sites),
        "events": resource_events.list_events(actor=actor, resource=resource),
        "templates": resource.templates.all(),
        "has_settings": bool(selectors.list_changeable(resource)),
        "has_credentials": any(kind.name == resource.kind and kind.form.secrets() for kind in selectors.list_kinds()),
    }
    return render(request, "compute/resource_live.html" if request.htmx else "compute/resource.html", context)


@require_POST
def drain(request: PageRequest, name: str) -> HttpResponse:
    """Let all nodes of a resource take nothing new, or open them again."""
    is_drained = request.POST.get("drained") == "1"
    resource = selectors.get_resource(actor=request.actor, name=name)
    count = resources.drain_resource(actor=request.actor, resource=resource, is_drained=is_drained)
    words = "no new jobs; running jobs continue" if is_drained else "new jobs start again"
    messages.success(request, f"{count_of(count, 'node')} of {name}: {words}.")
    return redirect("compute:resource", name=name)


def give_up_page(request: PageRequest, name: str) -> HttpResponse:
    """Show what is lost with a resource that is away; a POST in which its name was typed once more gives it up."""
    loss = lost_places.describe_resource_loss(actor=request.actor, name=name)
    if request.method != "POST":
        return render(request, "compute/give_up.html", {"loss": loss})
    if request.POST.get("confirmed") != name:
        raise InvalidInput("The name that was typed is not the resource's. Nothing was given up.")
    lost_places.give_up_resource(actor=request.actor, name=name)
    messages.success(request, f"{name} is given up. What it still runs goes on unseen.")
    return redirect("compute:compute")


def _line_of(node: NodeView, foreign: Mapping[str, Any], actor: Actor) -> NodeLine:
    gpus = units.ONE_GPU * int(foreign.get("gpus", 0))
    cpu, memory = int(foreign.get("cpu_millicores", 0)), int(foreign.get("memory_bytes", 0))
    return NodeLine(
        node=node,
        labels=[f"{key.rpartition('/')[2]} {node.labels[key]}" for key in _POOL_LABELS if key in node.labels],
        gpus=Amounts(node.gpu_milli + gpus, node.gpu_held_milli, gpus),
        cpu=Amounts(node.cpu_millicores + cpu, node.cpu_held_millicores, cpu),
        memory=Amounts(node.memory_bytes + memory, node.memory_held_bytes, memory),
        holders=foreign.get("holders", ()) if actor.is_site_admin else (),
    )


def _sum(amounts: Sequence[Amounts]) -> Amounts:
    return Amounts(
        sum(each.total for each in amounts), sum(each.ours for each in amounts), sum(each.foreign for each in amounts)
    )


def _copies_of(actor: Actor, resource: Resource) -> list[Any]:
    """Return the newest cached commits that jobs of a resource can read, as far as the actor may see them."""
    rows = caches.list_cached_commits(actor=actor).filter(site__name__in=resource.sites)
    return list(rows[:_ROWS])


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
