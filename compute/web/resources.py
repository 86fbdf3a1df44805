"""Compute resources, their nodes and their templates; attaching and detaching them, and draining nodes."""

from dataclasses import dataclass

from django import forms
from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.errors import InvalidName
from accounts.web.requests import PageRequest
from compute.adapters.form_fields import MOST_CORES, SizeField
from compute.errors import InvalidResource, ResourceExists, ResourceUnreachable, TemplateExists
from compute.models import Resource, Template
from compute.selectors import failures
from compute.selectors import resources as selectors
from compute.selectors import templates as template_selectors
from compute.services import confinement, resources, templates
from compute.services.templates import Shape
from compute.web import node_cells
from compute.web.node_cells import NodeView
from core.isolation import FailureView
from core.units import ONE_GPU
from datasets.errors import CacheSiteNotFound
from scheduler.selectors.nodes import get_node
from scheduler.services import nodes

_MOST_GPUS = 10_000


@dataclass(frozen=True)
class ResourceView:
    """A resource with what stands on it."""

    resource: Resource
    nodes: list[NodeView]
    templates: list[Template]
    failures: list[FailureView]


class AttachForm(forms.Form):
    """A place where jobs shall run. What is special to a kind comes from the kind's own form."""

    name = forms.CharField(max_length=63, help_text="Lower-case letters, digits and dashes.")
    kind = forms.ChoiceField()

    def __init__(self, data: QueryDict | None = None) -> None:
        """Offer every kind, and the fields of all of them."""
        super().__init__(data)
        self._kinds = {kind.name: kind for kind in selectors.list_kinds()}
        self.fields["kind"].choices = [(kind.name, kind.label) for kind in self._kinds.values()]  # type: ignore[attr-defined]
        for kind in self._kinds.values():
            self.fields.update({name: _optional(field) for name, field in kind.form().fields.items()})

    @property
    def hints(self) -> list[str]:
        """What there is to know about the kinds."""
        return [kind.hint for kind in self._kinds.values() if kind.hint]

    @property
    def config_fields(self) -> list[forms.BoundField]:
        """The fields that come from the kinds."""
        return [field for field in self if field.name not in {"name", "kind"}]

    def clean(self) -> dict[str, object]:
        """Keep, as `config` and `credentials`, what the chosen kind's form reads."""
        cleaned: dict[str, object] = super().clean() or self.cleaned_data
        if {"name", "kind"} <= cleaned.keys():
            form = self._kinds[str(cleaned["kind"])].form(self.data)
            for field, errors in form.errors.items():
                self.add_error(field, errors)
            if form.is_valid():
                config, credentials = form.read_config(str(cleaned["name"])), form.read_credentials()
                cleaned |= {"config": config, "credentials": credentials}
        return cleaned


class TemplateForm(forms.Form):
    """A named shape that jobs may have on a resource."""

    name = forms.CharField(max_length=63)
    cpu = forms.FloatField(min_value=0.001, max_value=MOST_CORES, initial=4, label="CPU cores")
    memory = SizeField(initial="16 GiB")
    gpus = forms.FloatField(
        min_value=0, max_value=_MOST_GPUS, initial=1, label="GPUs", help_text="0.5 is half of one device."
    )


def compute_page(request: PageRequest) -> HttpResponse:
    """Show where jobs can run."""
    seen = node_cells.list_node_views(request.actor)
    shapes = list(template_selectors.list_templates(actor=request.actor))
    views = [
        ResourceView(
            resource,
            [node for node in seen if node.resource == resource.name],
            [shape for shape in shapes if shape.resource_id == resource.pk],
            failures.of_resource(resource),
        )
        for resource in selectors.list_resources(actor=request.actor)
    ]
    context = {"views": views, "is_open": confinement.is_open_to_all()}
    return render(request, "compute/compute_live.html" if request.htmx else "compute/compute.html", context)


def attach_page(request: PageRequest) -> HttpResponse:
    """Show the form that attaches a resource; a POST asks the resource for its nodes and keeps it if it answers."""
    resources.require_attach(actor=request.actor)
    form = AttachForm(request.POST or None)
    if form.is_valid():
        fields = {name: form.cleaned_data[name] for name in ("name", "kind", "config", "credentials")}
        try:
            resource = resources.attach_resource(actor=request.actor, **fields)
        except (InvalidName, InvalidResource, ResourceExists, ResourceUnreachable) as error:
            form.add_error(None, f"{error.message} {error.hint}".strip())
        else:
            messages.success(
                request, f"{resource.name} answers and is attached. Give it a template to send jobs there."
            )
            return redirect("compute:compute")
    return render(request, "compute/attach.html", {"form": form})


@require_POST
def detach(request: PageRequest, name: str) -> HttpResponse:
    """Take a resource away."""
    resources.detach_resource(actor=request.actor, resource=selectors.get_resource(actor=request.actor, name=name))
    messages.success(request, f"{name} is detached. The history of its jobs stays.")
    return redirect("compute:compute")


@require_POST
def set_sites(request: PageRequest, name: str) -> HttpResponse:
    """Set the cache sites that a resource's jobs read, given by name in their order."""
    resource = selectors.get_resource(actor=request.actor, name=name)
    sites = request.POST.get("sites", "").replace(",", " ").split()
    try:
        resources.set_sites(actor=request.actor, resource=resource, sites=sites)
    except (CacheSiteNotFound, InvalidResource) as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    else:
        messages.success(request, f"Jobs on {name} read {', '.join(sites) or 'no cache site'}.")
    return redirect("compute:compute")


@require_POST
def add_template(request: PageRequest, name: str) -> HttpResponse:
    """Add a template to a resource."""
    resource = selectors.get_resource(actor=request.actor, name=name)
    form = TemplateForm(request.POST)
    if form.is_valid():
        said = form.cleaned_data
        shape = Shape(round(1000 * said["cpu"]), said["memory"], round(ONE_GPU * said["gpus"]))
        try:
            template = templates.create_template(actor=request.actor, resource=resource, name=said["name"], shape=shape)
        except (InvalidName, InvalidResource, TemplateExists) as error:
            messages.error(request, f"{error.message} {error.hint}".strip())
        else:
            messages.success(request, f"Jobs can ask for {template.full_name} from now on.")
    else:
        wrong = "; ".join(f"{form[field].label}: {' '.join(map(str, errors))}" for field, errors in form.errors.items())
        messages.error(request, f"The template is not added. {wrong}")
    return redirect("compute:compute")


@require_POST
def delete_template(request: PageRequest, name: str, template: str) -> HttpResponse:
    """Delete a template."""
    shape = template_selectors.get_template(actor=request.actor, full_name=f"{name}.{template}")
    templates.delete_template(actor=request.actor, template=shape)
    messages.success(request, f"{shape.full_name} is deleted. Jobs that are there keep their shape.")
    return redirect("compute:compute")


@require_POST
def drain(request: PageRequest, node_id: str) -> HttpResponse:
    """Let a node take nothing new, or open it again."""
    is_drained = request.POST.get("drained") == "1"
    node = get_node(actor=request.actor, node_id=node_id)
    nodes.set_drained(actor=request.actor, node=node, is_drained=is_drained)
    words = "takes no new jobs; running jobs continue" if is_drained else "takes new jobs again"
    messages.success(request, f"{node.name} {words}.")
    return redirect("compute:compute")


def _optional(field: forms.Field) -> forms.Field:
    """Leave it to the form of the chosen kind to validate a field."""
    shown = forms.Field(
        required=False, widget=field.widget, label=field.label, initial=field.initial, help_text=field.help_text
    )
    shown.widget.is_required = False
    return shown
