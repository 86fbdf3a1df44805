"""What never changes during a run: steps, arrows, conditions, templates and budgets, ready for the planner."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from flows.engine import expressions
from flows.engine.expressions import Expression
from flows.engine.places import Fallback
from flows.engine.spec import FlowSpec, StepSpec
from flows.engine.states import FailureKind


@dataclass(frozen=True)
class Choice:
    """One place of a step: a template, and how long its job may wait there before the next one is tried.

    Where the step has a size of its own, `template` is what its run calls the place. `has_own_wait`: the step says how
    long to prefer it to those after it.
    """

    template: str
    wait_s: float
    has_own_wait: bool = False


@dataclass(frozen=True)
class Node:
    """One step of the spec, whatever its grid or its completions multiply it into.

    At most `most_at_once` of its instances have begun and not ended; None: all may. One that `ends_with_a_part` begins
    no more instances once one has failed for good: these are parts of one work, and not tries of a grid.
    One that `reads_cached` reads datasets as cached commits. One that `has_own_size` names no templates: its places are
    found when a run starts, and until then it has no `choices`. It waits wherever it would start first.
    """

    key: str
    after: tuple[str, ...]
    choices: tuple[Choice, ...]
    budgets: Mapping[FailureKind, int] = field(default_factory=dict)
    condition: Expression | None = None
    has_data: bool = False
    most_at_once: int | None = None
    ends_with_a_part: bool = False
    reads_cached: bool = False
    fallback: Fallback = "order"
    has_own_size: bool = False

    @property
    def uses_forecasts(self) -> bool:
        """Whether forecasts decide among its templates."""
        return self.fallback != "order" and len(self.choices) > 1

    @property
    def has_budgets(self) -> bool:
        """Whether its jobs try the next template after a time."""
        return not self.has_own_size and self.fallback != "cheapest"

    @property
    def moves_by_forecasts(self) -> bool:
        """Whether its jobs go elsewhere by forecasts while they wait."""
        return self.uses_forecasts or (self.has_own_size and len(self.choices) > 1)


@dataclass(frozen=True)
class Graph:
    """All nodes, parents before children."""

    nodes: tuple[Node, ...]

    @cached_property
    def by_key(self) -> Mapping[str, Node]:
        """The nodes by name."""
        return {node.key: node for node in self.nodes}

    @cached_property
    def templates(self) -> frozenset[str]:
        """The templates that its steps name."""
        return frozenset(choice.template for node in self.nodes for choice in node.choices)

    @cached_property
    def has_data(self) -> bool:
        """Whether a step reads a dataset."""
        return any(node.has_data for node in self.nodes)

    @cached_property
    def readers(self) -> tuple[Node, ...]:
        """The steps after others that read cached commits: those are brought while the others run."""
        return tuple(node for node in self.nodes if node.reads_cached and node.after)

    @cached_property
    def uses_forecasts(self) -> bool:
        """Whether forecasts decide for a step."""
        return any(node.uses_forecasts for node in self.nodes)

    def with_places(self, places: Mapping[str, Sequence[str]]) -> "Graph":
        """Return the graph of a run: with the names of the places of steps that have a size of their own."""
        choices = {key: tuple(Choice(name, 0) for name in names) for key, names in places.items()}
        return Graph(tuple(replace(node, choices=choices.get(node.key, node.choices)) for node in self.nodes))

    def below(self, key: str) -> frozenset[str]:
        """Return the names of all steps that come after one, however far."""
        descendants: set[str] = set()
        for node in self.nodes:
            if key in node.after or not descendants.isdisjoint(node.after):
                descendants.add(node.key)
        return frozenset(descendants)

    @cached_property
    def measured(self) -> frozenset[str]:
        """The steps whose measurements some condition looks at."""
        return frozenset(
            reference.step
            for node in self.nodes
            if node.condition is not None
            for reference in expressions.references(node.condition)
            if reference.step != expressions.PARAMETERS
        )


def build(spec: FlowSpec, default_template: str) -> Graph:
    """Make the graph of a spec that was checked. Steps that name no template and no size get `default_template`."""
    return Graph(tuple(_node(step, default_template) for step in _in_order(spec)))


def _node(step: StepSpec, default_template: str) -> Node:
    choices = tuple(Choice(choice.template, choice.wait_s, choice.wait is not None) for choice in step.compute)
    return Node(
        key=step.name,
        after=step.after,
        choices=choices or (() if step.size_keys else (Choice(default_template, 0),)),
        budgets={kind: step.retries.budget_of(kind) for kind in FailureKind},
        condition=expressions.parse(step.when) if step.when else None,
        has_data=bool(step.data),
        most_at_once=step.most_at_once,
        ends_with_a_part=step.completions > 1,
        reads_cached=any(data.cached for data in step.data),
        fallback=step.fallback,
        has_own_size=bool(step.size_keys),
    )


def _in_order(spec: FlowSpec) -> Iterator[StepSpec]:
    children: dict[str, list[StepSpec]] = {step.name: [] for step in spec.steps}
    missing = {step.name: len(step.after) for step in spec.steps}
    for step in spec.steps:
        for parent in step.after:
            children[parent].append(step)
    ready = [step for step in spec.steps if not step.after]
    for step in ready:  # grows while it is walked
        yield step
        for child in children[step.name]:
            missing[child.name] -= 1
            if missing[child.name] == 0:
                ready.append(child)
