"""The program that the platform sends to hosts: a zip file with those of our modules that it needs, and no others.

A host needs only Python; a test starts the program without anybody's packages.
"""

import ast
import functools
import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_PLACES = (_ROOT, _ROOT / "platform", _ROOT / "client" / "src")
_ENTRY = "compute.adapters.ssh.host.serve"
OLDEST = (3, 11)
# Python older than that reads this file too.
_MAIN = f"""import sys
if sys.version_info < {OLDEST}:
    sys.exit("Python {OLDEST[0]}.{OLDEST[1]} or newer is needed; this is Python %d.%d." % sys.version_info[:2])
from {_ENTRY} import main
main()
"""
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Program:
    """A zip file that Python can run. Its name on hosts is the SHA-256 of its bytes."""

    data: bytes
    digest: str


@functools.cache
def build_program() -> Program:
    """Return the program, the same bytes for the same code."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", _LONG_AGO), _MAIN, zipfile.ZIP_DEFLATED)
        for name, path in sorted(_list_modules().items()):
            place = name.replace(".", "/") + ("/__init__.py" if path.name == "__init__.py" else ".py")
            archive.writestr(zipfile.ZipInfo(place, _LONG_AGO), path.read_bytes(), zipfile.ZIP_DEFLATED)
    data = file.getvalue()
    return Program(data, hashlib.sha256(data).hexdigest())


def _list_modules() -> dict[str, Path]:
    """Return our modules that the entry needs, and theirs, with the packages around them."""
    found: dict[str, Path] = {}
    missing = [_ENTRY, "compute.adapters.ssh.host.shim"]
    while missing:
        name = missing.pop()
        path = _find(name)
        if name in found or path is None:
            continue
        found[name] = path
        parent = name.rpartition(".")[0]
        missing += [*_imports_of(path), *([parent] if parent else [])]
    return found


def _find(name: str) -> Path | None:
    """Return the file of one of our modules; None for any other name."""
    places = (place.joinpath(*name.split(".")) for place in _PLACES)
    files = (file for place in places for file in (place.with_suffix(".py"), place / "__init__.py"))
    return next((file for file in files if file.is_file()), None)


def _imports_of(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.If):  # what only a checker of types reads
            continue
        for part in ast.walk(node):
            if isinstance(part, ast.Import):
                yield from (alias.name for alias in part.names)
            elif isinstance(part, ast.ImportFrom) and part.module:
                yield part.module
                yield from (f"{part.module}.{alias.name}" for alias in part.names)
