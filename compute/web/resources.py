"""Compute resources, their nodes and their templates; attaching and detaching them, and draining nodes."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.errors import InvalidName
from accounts.permissions import Actor
from accounts.web.requests import PageRequest
from compute.adapters.kinds import MOST_CORES, MOST_GPUS, ResourceKind
from compute.engine.placing import PodOptions
from compute.errors import InvalidResource, OtherCluster, ResourceChanged, ResourceUnreachable, TemplateExists
from compute.models import Resource, Template
from compute.selectors import failures
from compute.selectors import resources as selectors
from compute.selectors import templates as template_selectors
from compute.services import resources, templates
from compute.services.templates import Shape
from compute.web import node_cells
from compute.web.node_cells import NodeView
from core import bounds, hosts
from core.errors import Conflict, InvalidInput
from core.form_fields import SizeField, host_field
from core.isolation import FailureView
from core.units import ONE_GPU
from datasets.errors import CacheSiteNotFound, CacheSiteUnavailable
from datasets.selectors import caches
from scheduler.selectors.nodes import get_node
from scheduler.services import nodes
from web.refused_forms import add_error, show_again, shown


@dataclass(frozen=True)
class ResourceView:
    """A resource with what stands on it."""

    resource: Resource
    nodes: list[NodeView]
    templates: list[Template]
    failures: list[FailureView]
    sites_form: forms.Form | None
    template_form: forms.Form | None
    has_credentials: bool
    host: str


@dataclass(frozen=True)
class KindChoice:
    """A kind that can be chosen, and the fields that are its own."""

    kind: ResourceKind
    is_chosen: bool
    fields: list[forms.BoundField]


class SitesField(forms.MultipleChoiceField):
    """Cache sites in their order, the nearest first: a choice for each, of which the last ones may stay empty."""

    def clean(self, value: Sequence[str]) -> list[str]:
        """Return the names that were chosen."""
        names: list[str] = super().clean([name for name in value or () if name])
        return names


class SitesForm(forms.Form):
    """The cache sites of a resource."""

    sites = SitesField(
        required=False, label="Cache sites", help_text="Jobs read cached commits there; the nearest comes first."
    )

    def __init__(self, sites: Sequence[tuple[str, str]], *args: Any, **options: Any) -> None:
        """Offer the sites that there are."""
        super().__init__(*args, **options)
        self.fields["sites"].choices = sites  # type: ignore[attr-defined]

    @property
    def site_slots(self) -> list[str]:
        """The sites chosen so far, then up to three empty slots while there are more."""
        names = [name for name in self["sites"].value() or () if name]
        return [*names, *[""] * min(3, len(self.fields["sites"].choices) - len(names))]  # type: ignore[attr-defined]


class AttachForm(SitesForm):
    """A place where jobs shall run. What is special to a kind comes from the kind's own form."""

    name = forms.CharField(max_length=63, help_text="Lower-case letters, digits and dashes.")
    kind = forms.ChoiceField()

    def __init__(self, actor: Actor, data: QueryDict | None = None) -> None:
        """Offer every kind with its fields, and every cache site."""
        super().__init__(_site_choices(actor), data)
        self.fields.update(host_field())
        self._kinds = {kind.name: kind for kind in selectors.list_kinds()}
        self.fields["kind"].choices = [(kind.name, kind.label) for kind in self._kinds.values()]  # type: ignore[attr-defined]
        self.fields["kind"].initial = next(iter(self._kinds))
        for kind in self._kinds.values():
            self.fields.update({name: _optional(field) for name, field in kind.form().fields.items()})

    @property
    def kinds(self) -> list[KindChoice]:
        """The kinds, with the fields of each."""
        chosen = self["kind"].value()
        return [
            KindChoice(kind, kind.name == chosen, [self[name] for name in kind.form.base_fields])
            for kind in self._kinds.values()
        ]

    @property
    def common_fields(self) -> list[forms.BoundField]:
        """The fields of every kind that a line of text answers."""
        own = {name for kind in self._kinds.values() for name in kind.form.base_fields}
        return [field for field in self if field.name not in {"kind", "sites", *own}]

    def clean(self) -> dict[str, object]:
        """Keep, as `config` and `credentials`, what the chosen kind's form reads."""
        cleaned: dict[str, object] = super().clean() or self.cleaned_data
        if {"name", "kind"} <= cleaned.keys():
            form = self._kinds[str(cleaned["kind"])].form(self.data)
            for field, errors in form.errors.items():
                self.add_error(field, errors)
            if form.is_valid():
                config, credentials = form.read_config(str(cleaned["name"])), form.read_credentials()
                cleaned |= {"config": config, "credentials": credentials, "host": cleaned.get("host", "")}
        return cleaned


class WordsField(forms.CharField):
    """Words with spaces or commas between them."""

    def clean(self, value: object) -> list[str]:
        """Return the words."""
        return list(super().clean(value).replace(",", " ").split())


class LabelsField(WordsField):
    """Labels of a node."""

    def clean(self, value: object) -> dict[str, str]:  # type: ignore[override]
        """Return the labels with their values."""
        labels = super().clean(value)
        if without := [label for label in labels if "=" not in label]:
            raise forms.ValidationError(f"'{without[0]}' is no label of a node; write one like pool=train.")
        return dict(label.split("=", 1) for label in labels)


def _option(field: type[forms.CharField], label: str, placeholder: str, max_length: int = 2000) -> forms.CharField:
    widget = forms.TextInput({"placeholder": placeholder})
    return field(required=False, max_length=max_length, label=label, widget=widget)


class TemplateForm(forms.Form):
    """A named shape that jobs may have on a resource; `pods`: what else the pods of those on a cluster have."""

    name = forms.CharField(max_length=63, widget=forms.TextInput({"placeholder": "gpu-2"}))
    cpu = forms.FloatField(min_value=0.001, max_value=MOST_CORES, initial=4, label="CPU cores")
    memory = SizeField(
        most=bounds.MAX_QUANTITY, initial="16 GiB", fault_at_zero="A template gives some memory: 16 GiB."
    )
    gpus = forms.FloatField(min_value=0, max_value=MOST_GPUS, initial=1, label="GPUs (0.5 is half of one)")
    pods: Mapping[str, forms.CharField] = {
        "node_selector": _option(LabelsField, "Only on nodes with", "pool=train, zone=a"),
        "tolerations": _option(WordsField, "Tolerates", "gpu=only:NoSchedule, spot"),
        "priority_class": _option(forms.CharField, "Priority class", "that of the cluster", 253),
        "image_pull_secrets": _option(WordsField, "Secrets for pulling images", "registry"),
    }

    def __init__(self, resource: Resource, data: QueryDict | None = None) -> None:
        """Ask for what a template of the resource can have."""
        super().__init__(data, auto_id=f"template-{resource.pk}-%s")
        if any(kind.runs_pods for kind in selectors.list_kinds() if kind.name == resource.kind):
            self.fields.update(deepcopy(dict(self.pods)))

    def clean(self) -> dict[str, Any]:
        """Require what pods can have."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        for name in self.pods.keys() & cleaned.keys():
            try:
                PodOptions(**{name: cleaned[name]}).check()
            except InvalidResource as error:
                self.add_error(name, error.message)
        return cleaned

    def read_shape(self) -> Shape:
        """Return what valid fields say."""
        fields = self.cleaned_data
        pod = {name: fields[name] for name in self.pods if name in fields}
        return Shape(round(1000 * fields["cpu"]), fields["memory"], round(ONE_GPU * fields["gpus"]), pod=pod)


def _sites_form(resource: Resource, sites: Sequence[tuple[str, str]], data: QueryDict | None = None) -> SitesForm:
    return SitesForm(sites, data, auto_id=f"sites-{resource.pk}-%s", initial={"sites": resource.sites})


def compute_page(request: PageRequest) -> HttpResponse:
    """Show where jobs can run."""
    seen = node_cells.list_node_views(request.actor)
    shapes = list(template_selectors.list_templates(actor=request.actor))
    sites = _site_choices(request.actor)
    with_secrets = {kind.name for kind in selectors.list_kinds() if kind.form.secrets()}
    resources = list(selectors.list_resources(actor=request.actor))
    problems = failures.of_resources(resources)
    has_dialogs = request.actor.is_site_admin and not request.htmx
    views = [
        ResourceView(
            resource,
            [node for node in seen if node.resource == resource.name],
            [shape for shape in shapes if shape.resource_id == resource.pk],
            problems[resource.pk],
            shown(request, _sites_form(resource, sites)) if has_dialogs else None,
            shown(request, TemplateForm(resource)) if has_dialogs else None,
            resource.kind in with_secrets,
            hosts.name_of(resource.host),
        )
        for resource in resources
    ]
    context = {"views": views, "is_open": selectors.is_open_to_all()}
    return render(request, "compute/compute_live.html" if request.htmx else "compute/compute.html", context)


def attach_page(request: PageRequest) -> HttpResponse:
    """Show the form that attaches a resource; a POST asks the resource for its nodes and keeps it if it answers."""
    resources.require_attach(actor=request.actor)
    form = AttachForm(request.actor, request.POST or None)
    if form.is_valid():
        names = ("name", "kind", "config", "credentials", "sites", "host")
        fields = {name: form.cleaned_data[name] for name in names}
        try:
            resource = resources.attach_resource(actor=request.actor, **fields)
        except (InvalidInput, Conflict, ResourceUnreachable, CacheSiteUnavailable) as error:
            add_error(form, error)
        else:
            messages.success(
                request,
                f"{resource.name} answers and is attached. Jobs that name their size can run there; a template gives a "
                "size a name.",
            )
            for warning in selectors.list_cluster_warnings(resource):
                messages.warning(request, warning)
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
    resources.require_attach(actor=request.actor)
    form = _sites_form(resource, _site_choices(request.actor), request.POST)
    if form.is_valid():
        sites = form.cleaned_data["sites"]
        try:
            resources.set_sites(actor=request.actor, resource=resource, sites=sites)
        except (CacheSiteNotFound, CacheSiteUnavailable, InvalidResource, ResourceUnreachable) as error:
            add_error(form, error, {"": "sites"})
        else:
            messages.success(request, f"Jobs on {name} read {', '.join(sites) or 'no cache site'}.")
            return redirect("compute:compute")
    return show_again(request, "compute:compute", form)


def credentials_page(request: PageRequest, name: str) -> HttpResponse:
    """Show the form that replaces a resource's credentials; a POST stores those with which the resource answers."""
    resources.require_attach(actor=request.actor)
    resource = selectors.get_resource(actor=request.actor, name=name)
    [kind] = [kind for kind in selectors.list_kinds() if kind.name == resource.kind]
    form = kind.form.of_secrets()(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            resources.replace_credentials(actor=request.actor, resource=resource, credentials=form.read_credentials())
        except (InvalidResource, OtherCluster, ResourceChanged, ResourceUnreachable) as error:
            add_error(form, error)
        else:
            messages.success(request, f"{name} answers with the new credentials.")
            return redirect("compute:compute")
    return render(request, "compute/credentials.html", {"form": form, "resource": resource})


def settings_page(request: PageRequest, name: str) -> HttpResponse:
    """Show the form that changes settings of a resource; a POST stores those that it takes."""
    resources.require_attach(actor=request.actor)
    resource = selectors.get_resource(actor=request.actor, name=name)
    [kind] = [kind for kind in selectors.list_kinds() if kind.name == resource.kind]
    names = selectors.list_changeable(resource)
    form = kind.form.of_fields(names)(
        request.POST if request.method == "POST" else None, initial={**kind.form.write_fields(resource.config)}
    )
    if form.is_valid():
        fields = {name: form.data.get(name, "") for name in names}
        try:
            resources.change_settings(actor=request.actor, resource=resource, fields=fields)
        except (InvalidResource, ResourceChanged, ResourceUnreachable) as error:
            if not names:
                raise
            add_error(form, error)
        else:
            messages.success(request, f"{name} is changed. Jobs that run keep what they were started with.")
            return redirect("compute:resource", name=name)
    return render(request, "compute/settings.html", {"form": form, "resource": resource})


@require_POST
def add_template(request: PageRequest, name: str) -> HttpResponse:
    """Add a template to a resource."""
    resource = selectors.get_resource(actor=request.actor, name=name)
    templates.require_add(actor=request.actor)
    form = TemplateForm(resource, request.POST)
    if form.is_valid():
        name = form.cleaned_data["name"]
        try:
            template = templates.create_template(
                actor=request.actor, resource=resource, name=name, shape=form.read_shape()
            )
        except (InvalidName, InvalidResource, TemplateExists) as error:
            add_error(form, error, {"gpu_milli": "gpus", "pod": "node_selector"})
        else:
            messages.success(request, f"Jobs can ask for {template.full_name} from now on.")
            return redirect("compute:compute")
    return show_again(request, "compute:compute", form)


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


def _site_choices(actor: Actor) -> list[tuple[str, str]]:
    """Return the cache sites that a resource can name, each with what people should know of it."""
    sites = caches.list_sites(actor=actor)
    return [(site.name, f"{site.name} (simulated)" if site.is_simulated else site.name) for site in sites]


def _optional(field: forms.Field) -> forms.Field:
    """Leave it to the form of the chosen kind to validate a field."""
    shown = forms.Field(
        required=False, widget=field.widget, label=field.label, initial=field.initial, help_text=field.help_text
    )
    shown.widget.is_required = False
    return shown
