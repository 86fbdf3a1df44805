"""What a version says, as spec and as graph, and where its steps may run.

A step may run on the templates that it names. One with a size of its own may run where a place is found for it when its
flow is checked, and again when a run starts, which keeps what was found. No actor is asked for where the caller has
checked who may read the version.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any

from accounts.models import Project
from accounts.permissions import Actor, require
from compute.selectors import made_templates, pool_places, templates
from compute.services import shapes
from compute.services.jobs import Placing, SourceKind
from compute.services.shapes import Ask
from core import tasks
from core.errors import PlatformError
from core.units import ONE_GPU
from flows import permissions
from flows.engine import graph as graphs
from flows.engine.graph import Graph
from flows.engine.spec import FlowSpec, StepSpec
from flows.models import Attempt, FlowVersion, Run
from flows.selectors.inputs import DATA_SOURCES, OUTPUT_SOURCES
from scheduler.selectors import pools

if TYPE_CHECKING:
    from compute.models import Template

DEFAULT_TEMPLATE = "this-machine.small"

_Reads = tuple[tuple[str, frozenset[SourceKind]], ...]
"""What a step reads: what it is called, and where it may come from."""

RunPlaces = dict[str, Any]
"""What a run keeps of places, as JSON: see `Run.places`."""

_LONGEST_NAME = Attempt._meta.get_field("template").max_length or 0


def spec_of(version_id: str) -> FlowSpec:
    """Return the parsed spec of a version."""
    return _parsed(version_id)[0]


def version_of(version_id: str) -> FlowVersion:
    """Return what never changes of a version, with the name of its flow."""
    return _parsed(version_id)[2]


def graph_of(version_id: str) -> Graph:
    """Return the graph of a version. Steps with a size of their own have no places in it: see `graph_of_run`."""
    return _parsed(version_id)[1]


def graph_of_run(run: Run) -> Graph:
    """Return the graph of a run's version, with the places that were found for its steps when it started."""
    if not run.places:
        return graph_of(run.version_id)
    names = tuple((key, tuple(place["choices"])) for key, place in run.places["steps"].items())
    return _placed(run.version_id, names)


@lru_cache(maxsize=32)
def _placed(version_id: str, places: tuple[tuple[str, tuple[str, ...]], ...]) -> Graph:
    return graph_of(version_id).with_places(dict(places))


@lru_cache(maxsize=32)
def _parsed(version_id: str) -> tuple[FlowSpec, Graph, FlowVersion]:
    """Versions never change, nor do the names of flows, so each is read and parsed once in a while."""
    rows = FlowVersion.objects.select_related("flow").only("number", "hash", "spec", "bundle", "flow__name")
    version = rows.get(pk=version_id)
    spec = FlowSpec.model_validate(version.spec)
    return spec, graphs.build(spec, DEFAULT_TEMPLATE), version


def find_templates(run: Run) -> dict[str, Any]:
    """Return the templates of a run's steps by what they are called there; those that are gone are left out."""
    records = run.places.get("known", {})
    names = graph_of_run(run).templates - records.keys()
    known = tasks.recently(("templates", *names), lambda: templates.find_templates(names)) if names else {}
    if len(known) < len(names):  # one may have been made since
        known = templates.find_templates(names)
    if not records:
        return known
    return {**known, **tasks.recently(("places", run.pk, str(records)), lambda: made_templates.recall(records))}


def pools_of(run: Run, key: str) -> tuple[str, ...]:
    """Return the pools in which places were found for a step, the best first; none where it named its place."""
    place = run.places.get("steps", {}).get(key)
    return tuple(place["pools"]) if place else ()


def names_by_place(run: Run, key: str) -> Mapping[tuple[str, str], str]:
    """Return what the places that were found for a step are called, by resource and pool."""
    names = run.places["steps"][key]["choices"] if run.places else ()
    records = {name: run.places["known"][name] for name in names}
    return {(place["resource_name"], place["pool"]): name for name, place in records.items()}


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
                known[asked] = _places_of(actor, *asked)
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


def _places_of(actor: Actor, ask: Ask, reads: _Reads) -> "Sequence[Template]":
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
