"""Specs and graphs of versions. For callers that have checked who may read the version."""

from functools import lru_cache

from flows.engine import graph as graphs
from flows.engine.graph import Graph
from flows.engine.spec import FlowSpec
from flows.models import FlowVersion, Run

DEFAULT_TEMPLATE = "this-machine.small"


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
