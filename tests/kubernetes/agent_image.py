"""An image with this Python and the client of this checkout, for the agents in pods: made in seconds, for tests only."""

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from deploy.images.archive import Image, write_image, write_layer

AGENT_IMAGE = "registry.test/agent:1"
CLIENT = Path(__file__).resolve().parents[2] / "client/src/nearline"
_PACKAGES = ("httpx", "httpcore", "h11", "anyio", "idna", "certifi", "sniffio", "typing_extensions")
_NOT_NEEDED = (
    "site-packages",
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "lib2to3",
    "ensurepip",
    "__pycache__",
    "config-*",
)


def write_agent_image(folder: Path) -> Path:
    """Write AGENT_IMAGE into a folder and return its archive."""
    root = folder / "agent"
    home, lib = root / "python", root / "lib"
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, home / "lib" / library.name, ignore=shutil.ignore_patterns(*_NOT_NEEDED))
    (home / "bin").mkdir()
    python = home / "bin/python3"
    shutil.copy(os.path.realpath(sys.executable), python)
    lib.mkdir()
    for source in _shared_libraries([python, *(home / "lib" / library.name / "lib-dynload").glob("*.so")]):
        loader = root / "lib64"
        target = loader if Path(source).parent.name == "lib64" else lib
        target.mkdir(exist_ok=True)
        shutil.copy(os.path.realpath(source), target / Path(source).name)
    for name in _PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            shutil.copytree(spec.submodule_search_locations[0], root / "packages" / name)
        elif spec is not None:
            shutil.copy(spec.origin, root / "packages")
    shutil.copytree(CLIENT, root / "packages" / "nearline", ignore=shutil.ignore_patterns("__pycache__"))
    for path in root.rglob("*"):  # whatever this process makes files for
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444))
    environment = {
        "PATH": "/python/bin",
        "PYTHONHOME": "/python",
        "PYTHONPATH": "/packages",
        "LD_LIBRARY_PATH": "/lib",
    }
    archive = folder / "agent.tar"
    write_image(archive, Image(AGENT_IMAGE, environment=environment), [write_layer(folder / "agent.tar.gz", root)])
    return archive


def _shared_libraries(programs: list[Path]) -> set[str]:
    answer = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    words = {word for line in answer.splitlines() for word in line.split() if word.startswith("/")}
    return {word for word in words if not word.endswith(":") and Path(word).is_file()}
