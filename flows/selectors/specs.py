"""Specs and graphs of versions. For callers that have checked who may read the version."""

from functools import lru_cache

from flows.engine import graph as graphs
from flows.engine.graph import Graph
from flows.engine.spec import FlowSpec
from flows.models import FlowVersion

DEFAULT_TEMPLATE = "this-machine.small"


def spec_of(version_id: str) -> FlowSpec:
    """Return the parsed spec of a version."""
    return _parsed(version_id)[0]


def version_of(version_id: str) -> FlowVersion:
    """Return what never changes of a version, with the name of its flow."""
    return _parsed(version_id)[2]


def graph_of(version_id: str) -> Graph:
    """Return the graph of a version."""
    return _parsed(version_id)[1]


@lru_cache(maxsize=32)
def _parsed(version_id: str) -> tuple[FlowSpec, Graph, FlowVersion]:
    """Versions never change, nor do the names of flows, so each is read and parsed once in a while."""
    rows = FlowVersion.objects.select_related("flow").only("number", "hash", "spec", "bundle", "flow__name")
    version = rows.get(pk=version_id)
    spec = FlowSpec.model_validate(version.spec)
    return spec, graphs.build(spec, DEFAULT_TEMPLATE), version
