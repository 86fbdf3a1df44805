"""Runs are started, cancelled and retried. All three only write down a wish; `workers.advance` does the work."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from django.db import transaction
from django.db.models import F, Max

from accounts import audit
from accounts.models import Project
from accounts.permissions import Actor, require
from accounts.services import secrets
from compute.errors import NoResourceFits
from compute.selectors import outputs as output_selectors
from compute.selectors import resources, templates
from core import clock, isolation, orm, tasks
from datasets.selectors import datasets as dataset_selectors
from datasets.services import caches, selections
from flows import permissions
from flows.engine import grids
from flows.engine.expressions import Value
from flows.engine.grids import Instance
from flows.engine.names import step_label
from flows.engine.spec import FlowSpec, StepSpec
from flows.engine.states import RUN_ENDS, RunState
from flows.errors import (
    FlowNotFound,
    InvalidParameters,
    NothingToRetry,
    OutputsGone,
    RunHasEnded,
    RunNotFinished,
    RunNotFound,
    StepNotFound,
)
from flows.models import Attempt, Flow, FlowVersion, Run, RunEvent, Step
from flows.selectors import failures, specs
from flows.selectors import runs as run_selectors
from flows.selectors.specs import RunPlaces, keep_places


@dataclass(frozen=True)
class CodeVersion:
    """Which code a run was started from. `diff_hash` is that of what was not committed; None: everything was."""

    commit: str = ""
    diff_hash: str | None = None
    branch: str | None = None
    remote: str | None = None


def start_run(
    *,
    actor: Actor,
    version: FlowVersion,
    parameters: Mapping[str, Value],
    code: CodeVersion | None = None,
    data: Mapping[str, str] | None = None,
) -> Run:
    """Start a run of a flow version. Dataset references are resolved to commits now, once for the whole run.

    `data` names other commits for some of the references, so that an earlier run can be had again. Raises
    InvalidParameters naming all that is wrong, ResourceUnconfined, NoResourceFits for volumes that are not offered any
    more, PermissionDenied for datasets that the actor may not cache, what `keep_places` raises, and what `datasets`
    raises for references that lead nowhere.
    """
    project = version.flow.project
    require(actor, permissions.RUN_FLOW, project.pk)
    spec = specs.spec_of(version.pk)
    places = _find_places(actor, project, version.pk, {step.name for step in spec.steps})
    names = _require_secrets(actor, project.pk, spec)
    values = grids.complete(spec.parameters, parameters)
    instances = grids.expand(spec, values)
    grids.require_size(instances)
    grids.require_arguments(spec, instances)
    datasets = _resolve_datasets(actor, spec, data or {})
    now = clock.now()
    with transaction.atomic():
        flow = Flow.objects.select_for_update().filter(pk=version.flow_id, deleted_at=None).first()
        if flow is None:
            raise FlowNotFound(f"The flow {version.flow.name} was deleted meanwhile.")
        last = Run.objects.filter(flow=version.flow_id).aggregate(last=Max("number"))["last"] or 0
        run = Run.objects.create(
            project=project,
            flow=version.flow,
            version=version,
            number=max(last, flow.last_removed_run) + 1,
            parameters=values,
            datasets=datasets,
            places=places,
            code={**(asdict(code) if code else {}), "bundle": version.bundle, "version": version.hash},
            created_by=actor.name,
            wake_at=now,
            event_seq=1,
        )
        positions = {step.name: number for number, step in enumerate(spec.steps)}
        steps = {step.name: step for step in spec.steps}
        Step.objects.bulk_create(
            [
                Step(
                    run=run,
                    key=instance.key,
                    index=instance.index,
                    label=_label_of(steps[instance.key], instance),
                    position=positions[instance.key],
                    parameters=dict(instance.parameters),
                )
                for instance in instances
            ],
            batch_size=orm.BATCH_ROWS,
        )
        RunEvent.objects.create(run=run, seq=1, kind="run.created", message=f"Started by {actor.name}.", at=now)
        facts = {"secrets": ", ".join(names)} if names else {}
        audit.record(actor, "flows.start_run", run, flow=version.flow.name, number=run.number, **facts)
        tasks.enqueue_on_commit("flows.advance", run_id=run.pk)
    return run


@transaction.atomic
def cancel_run(*, actor: Actor, run: Run, reason: str = "") -> Run:
    """Stop what runs and start nothing more. Raises RunHasEnded; a second wish changes nothing.

    Its steps and jobs tell who it was, and the `reason`.
    """
    require(actor, permissions.CANCEL_RUN, run.project_id)
    now = clock.now()
    live = Run.objects.filter(pk=run.pk).exclude(state__in=sorted(RUN_ENDS))
    if not live.exists():
        raise RunHasEnded(f"Run #{run.number} has ended already.")
    why = "" if actor.user_id is None else f"{actor.name} cancelled the run" + (f": {reason}" if reason else ".")
    if live.filter(cancel_requested_at=None).update(cancel_requested_at=now, wake_at=now, reason=why):
        audit.record(actor, "flows.cancel_run", run)
        isolation.try_now(failures.ids_of(run))
    tasks.enqueue_on_commit("flows.advance", run_id=run.pk)
    run.refresh_from_db()
    return run


def cancel_work(*, actor: Actor, username: str) -> None:
    """Cancel the runs that a person started and that have not ended."""
    for run in run_selectors.list_live_of([username]):
        with suppress(RunHasEnded):
            cancel_run(actor=actor, run=run, reason=f"{username} was disabled, and their work stopped.")


@transaction.atomic
def retry_run(*, actor: Actor, run: Run, step: str = "", index: int | None = None) -> Run:
    """Try the steps of an ended run again that did not succeed; or `step`, and all after it, whatever became of them.

    `index` names one try of a grid. What is not tried again keeps its result, and its outputs are used.
    Raises RunNotFinished, NothingToRetry, StepNotFound, OutputsGone, ResourceUnconfined and NoResourceFits, and
    DatasetNotFound and PermissionDenied for what the actor may not read and cache any more.
    """
    require(actor, permissions.RUN_FLOW, run.project_id)
    spec = specs.spec_of(run.version_id)
    _require_secrets(actor, run.project_id, spec)
    now = clock.now()
    try:
        run.refresh_from_db()
    except Run.DoesNotExist as error:
        raise _deleted_meanwhile(run) from error
    if not run.has_ended:
        raise RunNotFinished(f"Run #{run.number} has not ended yet.")
    steps = Step.objects.filter(run=run)
    if step and not steps.filter(key=step, **({} if index is None else {"index": index})).exists():
        raise StepNotFound(f"Run #{run.number} has no step '{step}'" + ("." if index is None else f" [{index}]."))
    if not step and not steps.exclude(state="succeeded").exists():
        raise NothingToRetry(f"Every step of run #{run.number} succeeded.")
    again = _find_again(run, step)
    _require_data(actor, spec, again, run.datasets)
    places = _find_places(actor, run.project, run.version_id, again, run.places)
    # Nothing advances a run that has ended, so it is opened by compare-and-set from here.
    ended = Run.objects.filter(pk=run.pk, state__in=sorted(RUN_ENDS), deleted_at=None)
    if not ended.update(
        state=RunState.RUNNING,
        reason="",
        finished_at=None,
        cancel_requested_at=None,
        retry_requested_at=now,
        retry_key=step,
        retry_index=index,
        places=places,
        wake_at=now,
    ):
        if not Run.objects.filter(pk=run.pk, deleted_at=None).exists():
            raise _deleted_meanwhile(run)
        raise RunNotFinished(f"Run #{run.number} is being tried again already.")
    audit.record(actor, "flows.retry_run", run, **({"step": step} if step else {}))
    # Now that the run goes on, no more of its files are deleted.
    _check_outputs(run, step, index)
    tasks.enqueue_on_commit("flows.advance", run_id=run.pk)
    run.refresh_from_db()
    return run


def _deleted_meanwhile(run: Run) -> RunNotFound:
    return RunNotFound(f"Run #{run.number} was deleted meanwhile.")


def _label_of(step: StepSpec, instance: Instance) -> str:
    part = instance.index if step.completions > 1 else None
    return step_label(instance.key, instance.parameters, step.grid, part)


def _require_secrets(actor: Actor, project_id: str, spec: FlowSpec) -> list[str]:
    """Return the names of the steps' secrets. Raises PermissionDenied unless the actor may use them."""
    names = sorted({name for step in spec.steps for name in step.secrets})
    secrets.require_use(actor=actor, project_id=project_id, names=names)
    return names


def _find_places(
    actor: Actor, project: Project, version_id: str, keys: Collection[str], earlier: RunPlaces | None = None
) -> RunPlaces:
    """Return where steps with a size of their own may run, for as long as the run is live.

    Only steps with these keys will run. Templates that are gone are ignored. Raises ResourceUnconfined and
    NoResourceFits unless they may run where they would, and what `keep_places` raises.
    """
    spec, graph = specs.spec_of(version_id), specs.graph_of(version_id)
    resources.require_use_of_templates(actor=actor, full_names=graph.templates)
    volumes = {step.name: step.volumes for step in spec.steps if step.volumes and step.name in keys}
    known = {each.full_name: each for each in templates.list_templates(actor=actor)} if volumes else {}
    for key, asked in volumes.items():
        for name in (choice.template for choice in graph.by_key[key].choices if choice.template in known):
            if fault := templates.describe_lack_of_volumes(known[name].resource, asked):
                raise NoResourceFits(f"'{key}' cannot run on {name}: {fault}")
    return keep_places(actor=actor, project=project, spec=spec, graph=graph, keys=keys, earlier=earlier or {})


def _find_again(run: Run, step: str) -> set[str]:
    """Return the steps that a retry tries again: one and all after it, or all that did not succeed."""
    if step:
        return {step, *specs.graph_of(run.version_id).below(step)}
    return set(Step.objects.filter(run=run).exclude(state="succeeded").values_list("key", flat=True))


def _check_outputs(run: Run, step: str, index: int | None) -> None:
    """Raise OutputsGone when a step that would be tried again reads what has been deleted in the meantime."""
    spec, graph = specs.spec_of(run.version_id), specs.graph_of(run.version_id)
    again = _find_again(run, step)
    if step:
        # The other tries of a grid are kept, and read by what comes after it.
        read = {parent for key in again for parent in graph.by_key[key].after}
        read -= again if index is None else again - {step}
    else:
        read = {parent for key in again for parent in graph.by_key[key].after}
    succeeded = Attempt.objects.filter(run=run, step__key__in=read, state="succeeded", number=F("step__attempt_count"))
    steps = {str(job_id): key for key, job_id in succeeded.order_by("pk").values_list("step__key", "job") if job_id}
    stored_in_part = {job_id for job_id, key in steps.items() if "**" not in spec.step(key).outputs}
    lost = output_selectors.find_lost(steps, stored_in_part=stored_in_part)
    for job_id, key in steps.items():
        if job_id in lost:
            raise OutputsGone(f"The outputs of '{key}' are needed again and have been deleted.", step=key)


def _choose(reference: str, ref: str) -> str:
    """Return the reference at another branch, tag or commit; the query that it names stays."""
    dataset, _, before = reference.partition("@")
    query = before[before.find(":") :] if ":" in before and ":" not in ref else ""
    return f"{dataset}@{ref}{query}"


def _resolve_datasets(actor: Actor, spec: FlowSpec, chosen: Mapping[str, str]) -> dict[str, dict[str, str]]:
    commits: dict[str, dict[str, str]] = {}
    references = {item.dataset for step in spec.steps for item in step.data}
    if unread := sorted(set(chosen) - references):
        raise InvalidParameters(f"No step of this flow reads {', '.join(unread)}.")
    for reference in sorted(references):
        choice = _choose(reference, chosen[reference]) if reference in chosen else reference
        resolved = selections.resolve(actor=actor, reference=choice)
        commits[reference] = {
            "reference": reference,
            "dataset": reference.partition("@")[0],
            "dataset_id": str(resolved.dataset.pk),
            "commit": resolved.commit.pk,
        }
    _require_data(actor, spec, {step.name for step in spec.steps}, commits)
    return commits


def _require_data(
    actor: Actor, spec: FlowSpec, keys: Collection[str], commits: Mapping[str, Mapping[str, str]]
) -> None:
    """Require that the actor may read what steps with these keys read, and cache what they read cached.

    The platform brings it by itself. Raises DatasetNotFound and PermissionDenied.
    """
    items = [item for step in spec.steps if step.name in keys for item in step.data]
    read = [(commits[item.dataset]["commit"], item.cached) for item in items]
    dataset_selectors.references_of(actor=actor, commit_ids=[commit for commit, _ in read])
    caches.require_cache(actor=actor, commit_ids=[commit for commit, is_cached in read if is_cached])
