"""Build the one image of the product, for web, worker, controller and the agent in pods: no engine, no registry.

    make image                  or              python deploy/images/build.py [--name NAME] ARCHIVE

Debian by debootstrap, Python packages by pip with the hashes of requirements/image.txt, the code of this checkout, and
its built user interface. Needs root, debootstrap and git. The layer below our code is kept in NEARLINE_IMAGE_CACHE
(default ~/.cache/nearline-image) for as long as what it is made of stays the same.
"""

import argparse
import fcntl
import hashlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.markers import Marker

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from deploy.images.archive import Image, Layer, write_image, write_layer  # noqa: E402 (the path must be set first)

NAME = "nearline:latest"
DEBIAN = "bookworm"
PYTHON = "3.11"
NEWEST_GLIBC = 36
"""Of Debian 12: 2.36. Wheels that need a newer one are not taken."""
PACKAGES = "opt/nearline"
CODE = "srv/nearline"
HOME = "/var/lib/nearline"
USER_ID = 10001
PARTS = ["manage.py", "LICENSE", "platform", "datasets", "scheduler", "compute", "experiments", "flows"]
COMPILE = ROOT / "deploy/images/compile"
BUILT_PAGES = "platform/web/static/web/dist"
NOT_SERVED = "platform/web/ui"
COMMAND = ("python3", "manage.py", "help")
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONPATH": f"/{CODE}:/{CODE}/platform:/{CODE}/client:/{PACKAGES}",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "HOME": HOME,
    "NEARLINE_HOME": f"{HOME}/state",  # made by the product: a volume's own folder may be open to a group
}


def main() -> int:
    """Build the archive that the command line names; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--name", default=NAME, help="name and tag in the archive (default: %(default)s)")
    arguments = parser.parse_args()
    if reason := missing():
        print(f"The image cannot be built here: {reason}", file=sys.stderr)  # noqa: T201
        return 1
    os.umask(0o022)
    build(arguments.archive, arguments.name)
    return 0


def missing() -> str:
    """Return what this machine lacks to build the image; empty when nothing."""
    if os.geteuid() != 0:
        return "debootstrap and chroot need root."
    if shutil.which("debootstrap") is None:
        return "debootstrap is not installed."
    if not (ROOT / BUILT_PAGES / ".built").exists():
        return "the user interface is not built; `make image` builds it first."
    return ""


def build(archive: Path, name: str) -> None:
    """Write the image's archive."""
    cache = Path(os.environ.get("NEARLINE_IMAGE_CACHE") or Path.home() / ".cache/nearline-image")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:  # who builds beside us waits for the base, and takes it
        fcntl.flock(lock, fcntl.LOCK_EX)
        base = prepare_base(cache)
    revision, committed_at = _git("log", "-1", "--format=%H %ct").split()
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        code, code_layer, draft = (Path(folder) / name for name in ("code", "code.tar.gz", "image.tar"))
        write_code(code, base / "root")
        layers = [
            Layer(base / "layer.tar.gz", (base / "digest").read_text()),
            write_layer(code_layer, code, modified_at=int(committed_at)),
        ]
        image = Image(
            name,
            command=COMMAND,
            environment=ENVIRONMENT,
            user=f"{USER_ID}:{USER_ID}",
            working_folder=f"/{CODE}",
            labels={
                "org.opencontainers.image.title": "nearline",
                "org.opencontainers.image.revision": revision,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        )
        write_image(draft, image, layers, modified_at=int(committed_at))
        archive.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(draft, archive)


def prepare_base(cache: Path) -> Path:
    """Return a folder with the root of Debian, Python and packages, its layer and digest; reuse what is there."""
    recipe = "".join(map(inspect.getsource, (prepare_base, _requirements_for, _pip_install))) + DEBIAN + PYTHON
    inputs = [ROOT / "requirements/image.txt", ROOT / "deploy/images/slim", COMPILE]
    digest = hashlib.sha256(b"\0".join([recipe.encode(), *(path.read_bytes() for path in inputs)]))
    base = cache / digest.hexdigest()[:16]
    if base.exists():
        return base
    draft = Path(tempfile.mkdtemp(dir=cache))
    try:
        root = draft / "root"
        _run("debootstrap", "--variant=minbase", "--include=python3,ca-certificates", DEBIAN, root)
        (draft / "requirements.txt").write_text(_requirements_for(root))
        _pip_install(root / PACKAGES, "--require-hashes", "-r", draft / "requirements.txt")
        _run(ROOT / "deploy/images/slim", root)
        _run("chroot", root, "sh", "-c", COMPILE.read_text(), "compile", f"/{PACKAGES}")
        for folder in (CODE, HOME.lstrip("/")):
            (root / folder).mkdir(parents=True)
        os.chown(root / HOME.lstrip("/"), USER_ID, USER_ID)
        with (root / "etc/passwd").open("a") as users:
            users.write(f"nearline:x:{USER_ID}:{USER_ID}::{HOME}:/usr/sbin/nologin\n")
        (draft / "digest").write_text(write_layer(draft / "layer.tar.gz", root).content_digest)
        draft.rename(base)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return base


def write_code(target: Path, base: Path) -> None:
    """Fill a folder with the product, its pages and the client, compiled by the Python of the base."""
    product = target / CODE
    tracked = _git("ls-files", "--cached", "--others", "--exclude-standard", "--", *PARTS).splitlines()
    built = [str(path.relative_to(ROOT)) for path in (ROOT / BUILT_PAGES).rglob("*") if path.is_file()]
    for name in [*tracked, *built]:
        if not name.startswith(f"{NOT_SERVED}/") and (ROOT / name).is_file():
            (product / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, product / name)
    _pip_install(product / "client", "--no-build-isolation", ROOT / "client")
    for origin in (product / "client").glob("*.dist-info/direct_url.json"):
        origin.unlink()  # it names the folder of this checkout
    command = target / "usr/local/bin/nearline"
    command.parent.mkdir(parents=True)
    shutil.copyfile(ROOT / "deploy/images/nearline", command)
    for path in target.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path == command else 0o644)
    _compile(base, CODE, product)


def _requirements_for(root: Path) -> str:
    """Return the requirements without the markers that hold for the Python of a root.

    pip judges markers by the Python that it runs on, which may be another than the image's.
    """
    say = "import platform; print(platform.python_version())"
    version = subprocess.run(["chroot", root, "python3", "-c", say], check=True, capture_output=True, text=True).stdout
    environment = {"python_full_version": version.strip(), "python_version": PYTHON}

    def decide(line: re.Match[str]) -> str:
        return f"{line[1]} \\" if Marker(line[2]).evaluate(environment) else line[0]

    text = (ROOT / "requirements/image.txt").read_text()
    return re.sub(r"^(\S+==\S+) ; (.+) \\$", decide, text, flags=re.MULTILINE)


def _pip_install(target: Path, *what: object) -> None:
    machine = os.uname().machine
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in range(5, NEWEST_GLIBC + 1)]
    platforms.append(f"--platform=manylinux2014_{machine}")
    wheels = ["--only-binary=:all:", f"--python-version={PYTHON}", "--implementation=cp", *platforms]
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile", f"--target={target}"]
    _run(sys.executable, "-m", "pip", "install", *options, *wheels, *what)


def _compile(root: Path, folder: str, mounted: Path) -> None:
    """Compile what is mounted at a folder of a root: the image's file system is read-only when it runs."""
    mount = f'mount --bind "{mounted}" "{root / folder}" && '
    command = f'chroot "{root}" python3 -m compileall -q -j 2 --invalidation-mode unchecked-hash "/{folder}"'
    _run("unshare", "--mount", "sh", "-c", mount + command)


def _run(*command: object) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
