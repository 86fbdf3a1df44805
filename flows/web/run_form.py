"""The form that a run is started with: a field for each typed parameter, and what is wrong with each value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from accounts.permissions import Level
from accounts.web.requests import PageRequest, go_to, text
from flows.engine import grids
from flows.engine.expressions import Value, value_text
from flows.engine.spec import FlowSpec, ParameterSpec
from flows.models import FlowVersion
from flows.selectors import flows as selectors
from flows.selectors import runs as run_selectors
from flows.selectors.specs import spec_of
from flows.services import runs

FIELD = "parameter:"
"""What the names of the fields begin with."""


@dataclass(frozen=True)
class Field:
    """A parameter, what stands in its field, and what is wrong with that."""

    name: str
    parameter: ParameterSpec
    value: str
    error: str = ""

    @property
    def choices(self) -> Sequence[str]:
        """What can be chosen; empty: anything can be written."""
        chosen = [value_text(choice) for choice in self.parameter.choices]
        return chosen or (["true", "false"] if self.parameter.type == "bool" else [])

    @property
    def is_required(self) -> bool:
        """Whether a run must give it."""
        return self.parameter.default is None


def fields_of(
    spec: FlowSpec, given: Mapping[str, Value] | None = None, faults: Mapping[str, str] | None = None
) -> list[Field]:
    """Return the fields with the values given, or else with the defaults."""
    faults = faults or {}
    shown = {key: parameter.default for key, parameter in spec.parameters.items()} | dict(given or {})
    values = {key: "" if value is None else value_text(value) for key, value in shown.items()}
    return [Field(key, parameter, values[key], faults.get(key, "")) for key, parameter in spec.parameters.items()]


def needs_values(spec: FlowSpec) -> bool:
    """Whether a run cannot start before somebody has filled something in."""
    return any(parameter.default is None for parameter in spec.parameters.values())


def run_form(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Show the form, filled with the defaults or with what the run `?like=` had. A POST starts a run and shows it."""
    flow = selectors.get_flow(actor=request.actor, project=project, name=name)
    version_name = request.POST.get("version") or text(request, "version")
    version = selectors.get_version(actor=request.actor, flow=flow, version=version_name)
    spec = spec_of(version.pk)
    if request.method != "POST":
        like = text(request, "like")
        before = run_selectors.get_run(actor=request.actor, run_id=like).parameters if like else {}
        return _show(request, version, fields_of(spec, {key: before[key] for key in spec.parameters if key in before}))
    given = _read(request, spec)
    faults = grids.find_faults(spec.parameters, given)
    if faults:
        return _show(request, version, fields_of(spec, given, faults))
    started = runs.start_run(actor=request.actor, version=version, parameters=given)
    return go_to(request, reverse("flows:run", args=[started.pk]))


def _show(request: PageRequest, version: FlowVersion, fields: Sequence[Field]) -> HttpResponse:
    context = {
        "version": version,
        "flow": version.flow,
        "fields": fields,
        "prefix": FIELD,
        "may_write": (request.actor.level_in(version.flow.project_id) or 0) >= Level.WRITE,
    }
    return render(request, "flows/run_dialog.html" if request.htmx else "flows/run_form.html", context)


def _read(request: PageRequest, spec: FlowSpec) -> dict[str, Value]:
    """Return what was filled in. An empty field means the default, but a text that may be empty is empty."""
    given: dict[str, Value] = {}
    for key, value in request.POST.items():
        name = key.removeprefix(FIELD)
        if not key.startswith(FIELD):
            continue
        parameter = spec.parameters.get(name)
        may_be_empty = parameter is not None and parameter.type == "str" and parameter.default is not None
        if value != "" or may_be_empty:
            given[name] = str(value)
    return given
