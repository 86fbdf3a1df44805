"""The program that the platform sends to hosts: a zip file with those of our modules that it needs, and no others.

A host needs only Python; a test starts the program without anybody's packages. Processes that fill cached copies need
packages of others, for HTTP and for hashes: they are sent once a host is to hold copies, as they are installed here.
"""

import ast
import functools
import hashlib
import importlib.util
import io
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compute.adapters.ssh.host.packages import AFTER, BEFORE

_ROOT = Path(__file__).parents[3]
# An image of the product has the client as it is installed.
_PLACES = (_ROOT, _ROOT / "platform", _ROOT / "client" / "src", _ROOT / "client")
_ENTRY, _SHIM = "compute.adapters.ssh.host.serve", "compute.adapters.ssh.host.shim"
_COPIES = "nearline.pod.copies"
_HTTP = ("httpx", "httpcore", "h11", "anyio", "idna", "certifi", "typing_extensions", "urllib3")
_COMPILED = ("blake3",)
_NEEDED_FILES = {".py", ".pem", ".so"}
OLDEST = (3, 11)
# Python older than that reads this file too.
_MAIN = f"""import sys
if sys.version_info < {OLDEST}:
    sys.exit("Python {OLDEST[0]}.{OLDEST[1]} or newer is needed; this is Python %d.%d." % sys.version_info[:2])
from {_ENTRY} import main
main()
"""
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
# Threads that parse at once may get a SystemError in Python 3.11: its depth of recursion is counted for all of them.
_parsing = threading.Lock()


@dataclass(frozen=True)
class Program:
    """A zip file that Python can run. Its name on hosts is the SHA-256 of its bytes."""

    data: bytes
    digest: str


@functools.cache
def build_program() -> Program:
    """Return the program, the same bytes for the same code."""
    return _pack({"__main__.py": _MAIN.encode(), **dict(_read_modules(_ENTRY, _SHIM))})


@functools.cache
def build_packages() -> Program:
    """Return an archive with what processes need that fill copies, as `host.packages` lays it out."""
    ours = {f"{BEFORE}/{place}": content for place, content in _read_modules(_COPIES)}
    others = {f"{BEFORE}/{place}": content for name in _HTTP for place, content in _read_package(name)}
    compiled = {f"{AFTER}/{place}": content for name in _COMPILED for place, content in _read_package(name)}
    return _pack(ours | others | compiled)


def _pack(files: Mapping[str, bytes]) -> Program:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, content in files.items():
            archive.writestr(zipfile.ZipInfo(place, _LONG_AGO), content, zipfile.ZIP_DEFLATED)
    data = file.getvalue()
    return Program(data, hashlib.sha256(data).hexdigest())


def _read_modules(*entries: str) -> Iterator[tuple[str, bytes]]:
    for name, path in sorted(_list_modules(entries).items()):
        yield name.replace(".", "/") + ("/__init__.py" if path.name == "__init__.py" else ".py"), path.read_bytes()


def _read_package(name: str) -> Iterator[tuple[str, bytes]]:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None  # noqa: S101, PT018 (the platform itself needs it)
    origin = Path(spec.origin)
    top = origin.parent if spec.submodule_search_locations else origin
    for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
        if path.suffix in _NEEDED_FILES:
            yield str(path.relative_to(top.parent)), path.read_bytes()


def _list_modules(entries: Sequence[str]) -> dict[str, Path]:
    """Return our modules that the entries need, and theirs, with the packages around them."""
    modules: dict[str, Path] = {}
    missing = [*entries]
    while missing:
        name = missing.pop()
        path = _find(name)
        if name in modules or path is None:
            continue
        modules[name] = path
        parent = name.rpartition(".")[0]
        missing += [*_imports_of(path), *([parent] if parent else [])]
    return modules


def _find(name: str) -> Path | None:
    """Return the file of one of our modules; None for any other name."""
    places = (place.joinpath(*name.split(".")) for place in _PLACES)
    files = (file for place in places for file in (place.with_suffix(".py"), place / "__init__.py"))
    return next((file for file in files if file.is_file()), None)


def _imports_of(path: Path) -> Iterator[str]:
    with _parsing:
        module = ast.parse(path.read_bytes())
    for node in module.body:
        if isinstance(node, ast.If):  # what only a checker of types reads
            continue
        for part in ast.walk(node):
            if isinstance(part, ast.Import):
                yield from (alias.name for alias in part.names)
            elif isinstance(part, ast.ImportFrom) and part.module:
                yield part.module
                yield from (f"{part.module}.{alias.name}" for alias in part.names)
