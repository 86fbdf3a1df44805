"""Flows are checked and kept as versions: the same content is the same version."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from django.db import transaction

from accounts import audit
from accounts.models import Project
from accounts.permissions import MANAGE_SECRETS, Actor, require
from accounts.selectors import list_secrets
from compute.errors import InvalidJobSpec, ResourceNotFound
from compute.selectors import templates
from compute.services.jobs import Placing
from core import clock
from core.errors import PlatformError
from datasets.selectors import datasets as dataset_selectors
from flows import permissions
from flows.engine import checks, spec
from flows.engine.flow_file import Needs
from flows.engine.problems import Finding, Path, Problem
from flows.engine.spec import FlowSpec
from flows.errors import InvalidFlow
from flows.models import Flow, FlowVersion
from flows.selectors import specs
from flows.selectors.inputs import DATA_SOURCES, OUTPUT_SOURCES
from flows.selectors.specs import DEFAULT_TEMPLATE
from flows.services import bundles
from scheduler.errors import PoolNotFound

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
    checked = checked.with_findings(_ask_platform(actor, project, checked.needs))
    return Validation(checked.spec, checked.problems, checked.notes)


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
    flow_spec = validation.spec
    now = clock.now()
    flow = _lock_flow(project, flow_spec)
    name = spec.version_hash(flow_spec, bundle)
    known = FlowVersion.objects.filter(flow=flow, hash=name).first()
    if known is not None:
        return known
    version = FlowVersion.objects.create(
        flow=flow,
        number=FlowVersion.objects.filter(flow=flow).count() + 1,
        hash=name,
        spec=_canonical(flow_spec),
        text=text,
        format=file_format,
        bundle=bundle,
        created_by=actor.name,
    )
    Flow.objects.filter(pk=flow.pk).update(title=flow_spec.title, description=flow_spec.description, updated_at=now)
    audit.record(actor, "flows.save_version", version, project_id=project.pk, flow=flow.name, hash=name)
    return version


def _lock_flow(project: Project, flow_spec: FlowSpec) -> Flow:
    """Return the flow, created if need be, held until the caller's transaction ends."""
    texts = {"title": flow_spec.title, "description": flow_spec.description, "updated_at": clock.now()}
    while True:
        flow, _ = Flow.objects.get_or_create(project=project, name=flow_spec.flow, deleted_at=None, defaults=texts)
        if Flow.objects.select_for_update().filter(pk=flow.pk, deleted_at=None).exists():
            return flow  # else it was deleted meanwhile


def _canonical(spec: FlowSpec) -> dict[str, Any]:
    return {"schema_version": spec.schema_version, **spec.model_dump(mode="json", exclude_defaults=True)}


def _ask_platform(actor: Actor, project: Project, steps: Sequence[Needs]) -> Iterator[Finding]:
    """Check what only the platform knows: templates, datasets, secrets."""
    known = {template.full_name: template for template in templates.list_templates(actor=actor)}
    project_secrets = list_secrets(actor=Actor.system("checks a flow"), project=project)
    secrets = list(project_secrets.values_list("name", flat=True))
    may_list_secrets = (actor.level_in(project.pk) or 0) >= MANAGE_SECRETS.level
    datasets: dict[str, str] = {}
    yield from _check_sizes(actor, project, [needs for needs in steps if needs.spec.size_keys])
    for needs in steps:
        yield from _check_templates(needs, known)
        yield from _check_mounts(needs, known)
        if fault := templates.describe_grace_period_fault(needs.grace_period_s):
            yield Finding((*needs.path, "grace_period"), "wrong_value", fault)
        for path, reference in needs.datasets:
            if reference not in datasets:
                datasets[reference] = _dataset_fault(actor, reference)
            if datasets[reference]:
                yield Finding(path, "unknown_dataset", datasets[reference])
        for path, name in needs.secrets:
            if name not in secrets:
                message = f"The project has no secret called '{name}'."
                yield Finding(path, "unknown_secret", message, mistaken=(name, secrets if may_list_secrets else ()))


def _check_sizes(actor: Actor, project: Project, steps: Sequence[Needs]) -> Iterator[Finding]:
    """Check that steps with a size of their own have a place."""
    answers = specs.find_places(actor=actor, project=project, steps=[needs.spec for needs in steps]) if steps else ()
    faulty = [needs for needs, answer in zip(steps, answers, strict=True) if isinstance(answer, PlatformError)]
    hindered = _hindered_by_volumes(actor, project, faulty)
    for needs, answer in zip(steps, answers, strict=True):
        path = (*needs.path, needs.spec.size_keys[0])
        if isinstance(answer, ResourceNotFound):
            yield Finding((*needs.path, "resource"), "unknown_resource", answer.message)
        elif isinstance(answer, PoolNotFound):
            yield Finding((*needs.path, "pools"), "unknown_pool", answer.message)
        elif isinstance(answer, PlatformError) and needs.path in hindered:
            yield Finding((*needs.path, "volumes"), "no_volumes", answer.message)
        elif isinstance(answer, PlatformError):
            yield Finding(path, "no_place", answer.message)
        elif answer[0].resource.is_simulated:
            message = f"{answer[0].resource.name} is simulated: its nodes do not exist, so '{needs.step}' runs nothing."
            yield Finding(path, "simulated", message, is_note=True)


def _hindered_by_volumes(actor: Actor, project: Project, steps: Sequence[Needs]) -> set[Path]:
    """Return the paths of the steps that would have a place without their volumes."""
    having = [needs for needs in steps if needs.volumes]
    without = [needs.spec.model_copy(update={"volumes": ()}) for needs in having]
    answers = specs.find_places(actor=actor, project=project, steps=without) if having else ()
    return {needs.path for needs, answer in zip(having, answers, strict=True) if not isinstance(answer, PlatformError)}


def _check_templates(needs: Needs, known: Mapping[str, "Template"]) -> Iterator[Finding]:
    if needs.takes_default and DEFAULT_TEMPLATE not in known:
        message = f"'{needs.step}' names no compute template, and there is no {DEFAULT_TEMPLATE} here."
        yield Finding(needs.path, "unknown_template", message)
    names = sorted(known)
    for path, name in needs.templates:
        if name not in known:
            message = f"There is no compute template '{name}'."
            yield Finding(path, "unknown_template", message, mistaken=(name, names))
        elif known[name].resource.is_simulated:
            message = f"{name} is simulated: its nodes do not exist, so '{needs.step}' runs nothing there."
            yield Finding(path, "simulated", message, is_note=True)
    usable = [known[name] for _, name in needs.templates if name in known]
    if needs.has_image and any(map(templates.ignores_image, usable)):
        message = "The image has no effect on this machine: its jobs run as plain processes."
        yield Finding((*needs.path, "image"), "note", message, is_note=True)


def _check_mounts(needs: Needs, known: Mapping[str, "Template"]) -> Iterator[Finding]:
    """Check that each template's jobs can mount what the step reads."""
    names = [DEFAULT_TEMPLATE] if needs.takes_default else [name for _, name in needs.templates]
    reads = [(path, f"the dataset {reference}", DATA_SOURCES) for path, reference in needs.datasets]
    if needs.reads_steps:
        reads.append(((*needs.path, "after"), "the output of another step", OUTPUT_SOURCES))
    for template in (known[name] for name in names if name in known):
        for path, what, sources in reads:
            if fault := templates.describe_mismatch(template, what, sources):
                yield Finding(path, "unmountable", f"{fault} Choose a template of another resource.")
        yield from _check_offers(needs, template)


def _check_offers(needs: Needs, template: "Template") -> Iterator[Finding]:
    """Check that a template's jobs can have what else the step asks for."""
    has_launcher = needs.spec.launcher is not None
    if fault := templates.describe_gang_mismatch(template, needs.replicas, has_launcher=has_launcher):
        path = (*needs.path, "launcher" if has_launcher else "replicas")
        yield Finding(path, "no_gangs", f"{fault} Choose a template of a cluster.")
    elif fault := _placing_fault(template, needs):
        yield Finding(needs.path, "unplaceable", f"'{needs.step}' cannot run on {template.full_name}: {fault}")
    if needs.ports and (fault := templates.describe_lack_of_ports(template.resource, needs.ports)):
        yield Finding((*needs.path, "ports"), "no_ports", f"{fault} Choose a template of another resource.")
    if fault := templates.describe_lack_of_volumes(template.resource, needs.volumes):
        yield Finding((*needs.path, "volumes"), "no_volumes", fault)
    if needs.keeps_checkpoints and (fault := templates.describe_checkpoint_mismatch(template)):
        yield Finding((*needs.path, "checkpoints"), "no_checkpoints", fault)
    if needs.early and (fault := templates.describe_early_mismatch(template)):
        yield from (Finding(path, "no_early_start", fault) for path in needs.early)


def _placing_fault(template: "Template", needs: Needs) -> str:
    try:
        return templates.describe_placing_mismatch(template, Placing.read(needs.placing), needs.replicas)
    except InvalidJobSpec as error:
        return error.message


def _dataset_fault(actor: Actor, reference: str) -> str:
    try:
        dataset_selectors.resolve(actor, reference)
    except PlatformError as error:
        return error.message
    return ""
