"""Flows are checked and kept as versions: the same content is the same version."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from django.db import transaction

from accounts import audit
from accounts.actor import Actor
from accounts.models import Project
from accounts.permissions import require
from accounts.selectors import list_secrets
from compute.selectors import templates
from core import clock
from core.errors import PlatformError
from datasets.selectors import datasets as dataset_selectors
from flows import permissions
from flows.engine import checks, spec
from flows.engine.checks import Checked
from flows.engine.cnvrg_keys import suggest
from flows.engine.problems import Path, Problem
from flows.engine.spec import FlowSpec, StepSpec
from flows.errors import InvalidFlow
from flows.models import Flow, FlowVersion
from flows.services import bundles
from flows.services.snapshots import DEFAULT_TEMPLATE

if TYPE_CHECKING:
    from compute.models import Template

Format = Literal["yaml", "json"]


@dataclass(frozen=True)
class Validation:
    """What a flow file says (None while there are problems), all its problems, and notes that hinder nothing."""

    spec: FlowSpec | None
    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...]


def validate_spec(*, actor: Actor, project: Project, text: str, file_format: Format = "yaml") -> Validation:
    """Find everything that is wrong with a flow file, here and now, each with its line."""
    require(actor, permissions.VIEW_FLOWS, project.pk)
    checked = checks.check(text, file_format, project=project.name)
    if checked.spec is None:
        return Validation(None, checked.problems, checked.notes)
    found = tuple(sorted(_ask_platform(actor, project, checked), key=lambda item: (item.line or 0, item.column or 0)))
    problems = tuple(item for item in found if not item.is_note)
    notes = (*checked.notes, *(item for item in found if item.is_note))
    return Validation(None if problems else checked.spec, problems, notes)


@transaction.atomic
def save_version(
    *, actor: Actor, project: Project, text: str, file_format: Format = "yaml", bundle: str = ""
) -> FlowVersion:
    """Keep a flow and return its version; content that is known gives the version that has it.

    `bundle` is the hash of code that was sent before. Raises InvalidFlow with all problems, and BundleNotFound.
    """
    require(actor, permissions.PUSH_FLOW, project.pk)
    validation = validate_spec(actor=actor, project=project, text=text, file_format=file_format)
    if validation.spec is None:
        count = len(validation.problems)
        summary = validation.problems[0].message if count == 1 else f"The flow has {count} problems."
        raise InvalidFlow(summary, problems=[asdict(problem) for problem in validation.problems])
    if bundle:
        bundles.check_bundle(actor=actor, project=project, sha256=bundle)
    said = validation.spec
    now = clock.now()
    flow, _ = Flow.objects.get_or_create(
        project=project,
        name=said.flow,
        defaults={"title": said.title[:200], "description": said.description, "updated_at": now},
    )
    Flow.objects.select_for_update().get(pk=flow.pk)
    name = spec.version_hash(said, bundle)
    known = FlowVersion.objects.filter(flow=flow, hash=name).first()
    if known is not None:
        return known
    version = FlowVersion.objects.create(
        flow=flow,
        number=FlowVersion.objects.filter(flow=flow).count() + 1,
        hash=name,
        spec=_canonical(said),
        text=text,
        format=file_format,
        bundle=bundle,
        created_by=actor.name,
    )
    Flow.objects.filter(pk=flow.pk).update(title=said.title[:200], description=said.description, updated_at=now)
    audit.record(actor, "flows.save_version", version, project_id=project.pk, flow=flow.name, hash=name)
    return version


def _canonical(said: FlowSpec) -> dict[str, Any]:
    return {"schema_version": said.schema_version, **said.model_dump(mode="json", exclude_defaults=True)}


def _ask_platform(actor: Actor, project: Project, checked: Checked) -> Iterator[Problem]:
    """Check what only the platform knows: templates, datasets, secrets."""
    assert checked.spec is not None  # noqa: S101 (the caller has looked)
    known = {template.full_name: template for template in templates.list_templates(actor=actor)}
    secrets = set(list_secrets(actor=Actor.system("checks a flow"), project=project).values_list("name", flat=True))
    datasets: dict[str, str] = {}
    for index, step in enumerate(checked.spec.steps):
        yield from _check_templates(checked, ("steps", index), step, known)
        for position, item in enumerate(step.data):
            if item.dataset not in datasets:
                datasets[item.dataset] = _dataset_fault(actor, item.dataset)
            if datasets[item.dataset]:
                path = ("steps", index, "data", position, "dataset")
                yield checked.locate(path, "unknown_dataset", datasets[item.dataset])
        for position, name in enumerate(step.secrets):
            if name not in secrets:
                message = f"The project has no secret called '{name}'.{suggest(name, sorted(secrets))}"
                yield checked.locate(("steps", index, "secrets", position), "unknown_secret", message)


def _check_templates(
    checked: Checked, path: Path, step: StepSpec, known: Mapping[str, "Template"]
) -> Iterator[Problem]:
    if not step.compute and DEFAULT_TEMPLATE not in known:
        message = f"'{step.name}' names no compute template, and there is no {DEFAULT_TEMPLATE} here."
        yield checked.locate(path, "unknown_template", message)
    for position, choice in enumerate(step.compute):
        if choice.template not in known:
            message = f"There is no compute template '{choice.template}'.{suggest(choice.template, sorted(known))}"
            yield checked.locate((*path, "compute", position), "unknown_template", message)
    found = [known[choice.template] for choice in step.compute if choice.template in known]
    if step.image and any(template.resource.kind == "local" for template in found):
        message = "The image has no effect on this machine: its jobs run as plain processes."
        yield replace(checked.locate((*path, "image"), "note", message), is_note=True)


def _dataset_fault(actor: Actor, reference: str) -> str:
    try:
        dataset_selectors.resolve(actor, reference)
    except PlatformError as error:
        return error.message
    return ""
