"""Finding where steps with a size of their own may run: for a flow that is checked, and for a run that starts."""

from collections.abc import Collection, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from accounts.actor import Actor
from accounts.models import Project
from accounts.permissions import require
from compute.selectors import made_templates, pool_places, templates
from compute.services import shapes
from compute.services.jobs import Placing, SourceKind
from compute.services.shapes import Ask
from core.errors import PlatformError
from core.units import ONE_GPU
from flows import permissions
from flows.engine.graph import Graph
from flows.engine.spec import FlowSpec, StepSpec
from flows.models import Attempt
from flows.selectors.inputs import DATA_SOURCES, OUTPUT_SOURCES
from scheduler.selectors import pools

if TYPE_CHECKING:
    from compute.models import Template

_Reads = tuple[tuple[str, frozenset[SourceKind]], ...]
"""What a step reads: what it is called, and where it may come from."""

RunPlaces = dict[str, Any]
"""What a run keeps of places, as JSON: see `Run.places`."""

_LONGEST_NAME = Attempt._meta.get_field("template").max_length or 0


def find_places(
    *, actor: Actor, project: Project, steps: Sequence[StepSpec]
) -> "list[Sequence[Template] | PlatformError]":
    """Return where each of these steps, with sizes of their own, may run, the best first; or why it runs nowhere."""
    require(actor, permissions.VIEW_FLOWS, project.pk)
    preferred = tuple(pools.list_preferred(project.pk))
    known: dict[tuple[Ask, _Reads], Sequence[Template]] = {}
    answers: list[Sequence[Template] | PlatformError] = []
    for step in steps:
        try:
            asked = _ask_of(step, preferred), _reads_of(step)
            if asked not in known:
                known[asked] = _find(actor, *asked)
            answers.append(known[asked])
        except PlatformError as error:
            answers.append(error)
    return answers


def keep_places(
    *, actor: Actor, project: Project, spec: FlowSpec, graph: Graph, keys: Collection[str], earlier: RunPlaces
) -> RunPlaces:
    """Return what a run keeps of where its steps with sizes of their own may run (`Run.places`).

    For the steps with these `keys` places are found, the others have those that they had `earlier`. Raises
    NoResourceFits, InvalidJobSpec, ResourceNotFound and PoolNotFound, which name the step.
    """
    steps = [step for step in spec.steps if step.size_keys and step.name in keys]
    if not steps:
        return earlier
    preferred = pools.list_preferred(project.pk)
    places = {key: place for key, place in earlier.get("steps", {}).items() if key not in keys}
    used = {name for place in places.values() for name in place["choices"]}
    known = {name: record for name, record in earlier.get("known", {}).items() if name in used}
    for step, there in zip(steps, find_places(actor=actor, project=project, steps=steps), strict=True):
        if isinstance(there, PlatformError):
            raise type(there)(f"'{step.name}': {there.message}") from there
        places[step.name] = {
            "pools": [] if step.resource else list(step.pools or preferred),
            "choices": [_note(template, known, graph) for template in there],
        }
    return {"steps": places, "known": known}


def _ask_of(step: StepSpec, preferred: tuple[str, ...]) -> Ask:
    """Return what a job of a step asks for. Raises InvalidJobSpec."""
    gpu_milli = round(ONE_GPU * (step.gpus or 0))
    placing = Placing.read(step.placing)
    placing.check(gpu_milli=gpu_milli, replicas=step.replicas)
    return Ask(
        gpu_milli=gpu_milli,
        cpu_millicores=step.own_cpu_millicores,
        memory_bytes=step.memory,
        resource=step.resource,
        pools=step.pools if step.pools or step.resource else preferred,
        preferred=preferred,
        replicas=step.replicas,
        placing=placing,
        needs_image=bool(step.image),
        starts_early=any(data.start == "early" for data in step.data),
        keeps_checkpoints=step.checkpoints,
        ports=step.ports,
        volumes=step.volumes,
    )


def _reads_of(step: StepSpec) -> _Reads:
    reads = [(f"the dataset {data.dataset}", DATA_SOURCES) for data in step.data]
    return tuple([*reads, ("the output of another step", OUTPUT_SOURCES)] if step.after else reads)


def _find(actor: Actor, ask: Ask, reads: _Reads) -> "Sequence[Template]":
    def fault_of(template: "Template") -> str:
        return next(filter(None, (templates.describe_mismatch(template, *each) for each in reads)), "")

    return shapes.find_places(actor=actor, ask=ask, fault_of=fault_of)


def _note(template: "Template", known: dict[str, Any], graph: Graph) -> str:
    """Note what is kept of a place by a name that no other one has in the run, and return that."""
    record = made_templates.keep(template)
    name = pool_places.describe(template.full_name, template.pool)
    numbered = (f"{template.full_name[: _LONGEST_NAME - 7]} #{number}" for number in count(2))
    # What the flow names itself is this place too, unless that is in one pool alone, or was made.
    taken = frozenset() if template.is_stored and not template.pool else graph.templates
    while len(name) > _LONGEST_NAME or name in taken or known.setdefault(name, record) != record:
        name = next(numbered)
    return name
