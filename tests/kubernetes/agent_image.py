"""Images with this Python and the client of this checkout, for pods: made in seconds, for tests only."""

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from deploy.images.archive import Image, write_image, write_layer
from tests.kubernetes.images import copy_shell

AGENT_IMAGE = "registry.test/agent:1"
"""What the agents in pods need."""
LEARNING_IMAGE = "registry.test/learning:1"
"""What a user brings who learns with numpy and Pillow."""
CLIENT = Path(__file__).resolve().parents[2] / "client/src/nearline"
_PACKAGES = (
    "httpx",
    "httpcore",
    "h11",
    "anyio",
    "idna",
    "certifi",
    "sniffio",
    "typing_extensions",
    "blake3",
    "urllib3",
)
_LIBRARIES = {"PIL": "pillow"}
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
    return _write(AGENT_IMAGE, folder / "agent", _PACKAGES)


def write_learning_image(folder: Path) -> Path:
    """Write LEARNING_IMAGE into a folder and return its archive."""
    root = folder / "learning"
    copy_shell(root)
    return _write(LEARNING_IMAGE, root, (*_PACKAGES, "numpy", "PIL"))


def _write(name: str, root: Path, packages: tuple[str, ...]) -> Path:
    home, lib = root / "python", root / "lib"
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, home / "lib" / library.name, ignore=shutil.ignore_patterns(*_NOT_NEEDED))
    (home / "bin").mkdir()
    python = home / "bin/python3"
    shutil.copy(os.path.realpath(sys.executable), python)
    (home / "bin/python").symlink_to("python3")
    for package in packages:
        spec = find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            source = Path(spec.submodule_search_locations[0])
            shutil.copytree(source, root / "packages" / package, ignore=shutil.ignore_patterns(*_NOT_NEEDED))
            # Wheels bring the libraries of their extensions in a folder beside them.
            for libraries in source.parent.glob(f"{_LIBRARIES.get(package, package)}.libs"):
                shutil.copytree(libraries, root / "packages" / libraries.name)
        elif spec is not None:
            shutil.copy(spec.origin, root / "packages")
    lib.mkdir()
    for source in _shared_libraries([python, *root.rglob("*.so")]):
        loader = root / "lib64"
        target = loader if Path(source).parent.name == "lib64" else lib
        target.mkdir(exist_ok=True)
        shutil.copy(os.path.realpath(source), target / Path(source).name)
    shutil.copytree(CLIENT, root / "packages" / "nearline", ignore=shutil.ignore_patterns("__pycache__"))
    for path in root.rglob("*"):  # whatever this process makes files for
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444))
    environment = {
        "PATH": "/python/bin:/bin",
        "PYTHONHOME": "/python",
        "PYTHONPATH": "/packages",
        "LD_LIBRARY_PATH": "/lib",
    }
    archive = root.with_suffix(".tar")
    write_image(archive, Image(name, environment=environment), [write_layer(root.with_suffix(".tar.gz"), root)])
    return archive


def _shared_libraries(programs: list[Path]) -> set[str]:
    answer = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    words = {word for line in answer.splitlines() for word in line.split() if word.startswith("/")}
    files = {word for word in words if not word.endswith(":") and Path(word).is_file()}
    return {file for file in files if "site-packages" not in file and "/packages/" not in file}
