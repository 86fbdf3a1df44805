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


def graph_of(version_id: str) -> Graph:
    """Return the graph of a version."""
    return _parsed(version_id)[1]


@lru_cache(maxsize=32)
def _parsed(version_id: str) -> tuple[FlowSpec, Graph]:
    """Versions never change, so each is parsed once in a while."""
    spec = FlowSpec.model_validate(FlowVersion.objects.values_list("spec", flat=True).get(pk=version_id))
    return spec, graphs.build(spec, DEFAULT_TEMPLATE)
