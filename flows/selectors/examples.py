"""What a flow may begin with: examples that ship with the product, and steps of the project's other flows.

An example is a folder with a flow.yaml and the code that its steps run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import OuterRef, Subquery

from accounts.models import Project
from accounts.permissions import Actor, require
from flows import permissions
from flows.engine import checks
from flows.engine.spec import FlowSpec
from flows.errors import ExampleNotFound
from flows.models import FlowVersion

FILE = "flow.yaml"
_MOST_FLOWS = 40


@dataclass(frozen=True)
class Example:
    """A flow to start from."""

    name: str
    text: str
    spec: FlowSpec

    @property
    def folder(self) -> Path:
        """Where its code is."""
        return _root() / self.name


def list_examples() -> Sequence[Example]:
    """Return the examples by name; an installation without them has none."""
    examples = []
    for path in sorted(_root().glob(f"*/{FILE}")):
        text = path.read_text()
        spec = checks.check(text, "yaml").spec
        if spec is not None:
            examples.append(Example(path.parent.name, text, spec))
    return examples


def get_example(name: str) -> Example:
    """Return one example. Raises ExampleNotFound."""
    for example in list_examples():
        if example.name == name:
            return example
    raise ExampleNotFound(f"There is no example called '{name}' here.")


@dataclass(frozen=True)
class Shelf:
    """The steps of one flow, as they stand in its newest version. `needs_code`: they run files that came with it."""

    flow: str
    title: str
    needs_code: bool
    steps: Sequence[Mapping[str, Any]]


def list_library(*, actor: Actor, project: Project) -> Sequence[Shelf]:
    """Return the steps of the project's flows, those changed last first, in one query."""
    require(actor, permissions.VIEW_FLOWS, project.pk)
    newest = FlowVersion.objects.filter(flow=OuterRef("flow")).order_by("-number").values("pk")[:1]
    versions = (
        FlowVersion.objects.filter(flow__project=project, flow__deleted_at=None, pk=Subquery(newest))
        .select_related("flow")
        .order_by("-flow__updated_at", "-pk")[:_MOST_FLOWS]
    )
    return [
        Shelf(version.flow.name, version.flow.title, bool(version.bundle), version.spec.get("steps", []))
        for version in versions
    ]


def _root() -> Path:
    return Path(settings.BASE_DIR) / "examples"
