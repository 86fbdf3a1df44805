"""The example flows that ship with the product, each a folder with a flow.yaml and the code that its steps run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from flows.engine import checks
from flows.engine.spec import FlowSpec
from flows.errors import ExampleNotFound

FILE = "flow.yaml"


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


def _root() -> Path:
    return Path(settings.BASE_DIR) / "examples"
