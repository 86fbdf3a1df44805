"""Images for pods of tests, made without a registry: what a user brings, our own, and what holds a pod's namespaces.

Pods name them with `imagePullPolicy: Never`.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from deploy.images.archive import Image, write_image, write_layer

USER_IMAGE = "registry.test/busybox:1"
"""An image as a user brings it: a shell and the usual commands, nothing of ours, no Python."""
IMAGE = "registry.test/nearline:test"
"""The product's own image, of this checkout."""
PAUSE_IMAGE = "registry.test/pause:1"


BUILD = Path(__file__).resolve().parents[2] / "deploy/images/build.py"


def write_product_image(folder: Path) -> Path:
    """Build IMAGE into a folder and return its archive; minutes at first, then seconds."""
    archive = folder / "nearline.tar"
    subprocess.run([sys.executable, BUILD, f"--name={IMAGE}", archive], check=True, timeout=1800)
    return archive


def write_user_image(folder: Path) -> Path:
    """Write USER_IMAGE into a folder and return its archive."""
    return _write(folder, Image(USER_IMAGE, command=("/bin/sh",), environment={"PATH": "/bin"}))


def write_pause_image(folder: Path) -> Path:
    """Write PAUSE_IMAGE into a folder and return its archive."""
    return _write(folder, Image(PAUSE_IMAGE, command=("/bin/sleep", "2147483647"), user="65535:65535"))


def copy_shell(root: Path) -> None:
    """Give the root of an image a shell and the usual commands, in /bin."""
    (root / "bin").mkdir(parents=True)
    busybox = root / "bin/busybox"
    shutil.copy(shutil.which("busybox"), busybox)
    for name in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    (root / "bin").chmod(0o755)  # the umask of a test process is strict
    busybox.chmod(0o755)


def _write(folder: Path, image: Image) -> Path:
    base = folder / image.name.replace("/", "-").replace(":", "-")
    root = base / "root"
    copy_shell(root)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    archive = base / "image.tar"
    write_image(archive, image, [write_layer(base / "layer.tar.gz", root)])
    return archive
