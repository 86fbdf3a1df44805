"""The example flows that ship with the product, each a folder with a flow.yaml and the code that its steps run."""

import gzip
import io
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from accounts.actor import Actor
from accounts.models import Project
from flows.engine import checks
from flows.engine.spec import FlowSpec
from flows.errors import ExampleNotFound
from flows.models import Bundle
from flows.services import bundles

_FILE = "flow.yaml"


@dataclass(frozen=True)
class Example:
    """A flow to start from."""

    name: str
    text: str
    spec: FlowSpec


def list_examples() -> Sequence[Example]:
    """Return the examples by name; an installation without them has none."""
    found = []
    for path in sorted(_root().glob(f"*/{_FILE}")):
        text = path.read_text()
        spec = checks.check(text, "yaml").spec
        if spec is not None:
            found.append(Example(path.parent.name, text, spec))
    return found


def get_example(name: str) -> Example:
    """Return one example. Raises ExampleNotFound."""
    for example in list_examples():
        if example.name == name:
            return example
    raise ExampleNotFound(f"There is no example called '{name}' here.")


def save_code(*, actor: Actor, project: Project, name: str) -> Bundle:
    """Keep the code of an example for flows of a project; again gives the same bundle. Raises ExampleNotFound."""
    return bundles.save_bundle(actor=actor, project=project, data=_pack(_root() / get_example(name).name))


def _root() -> Path:
    return Path(settings.BASE_DIR) / "examples"


def _pack(folder: Path) -> bytes:
    """Return a tar.gz that is the same for the same files: no times, no owners, in the order of the names."""
    archive = io.BytesIO()
    with gzip.GzipFile(fileobj=archive, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            is_code = path.is_file() and path.name != _FILE and "__pycache__" not in path.parts
            if is_code:
                entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
                entry.size, entry.mode = path.stat().st_size, 0o644
                tar.addfile(entry, io.BytesIO(path.read_bytes()))
    return archive.getvalue()
