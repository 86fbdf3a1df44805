"""A Ceph object gateway (RGW) with one monitor, one manager and one OSD in a file, on loopback: a real S3 server.

It is what the Debian packages `radosgw ceph-mon ceph-osd ceph-mgr ceph-common` install. All of it lies below a folder of
its own and is stopped by process id.
"""

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.data_plane.targets import Bucket
from tests.ports import reserve_port
from tests.services import listens, stopped_at_the_end, wait_until

_PROGRAMS = ("ceph", "ceph-authtool", "ceph-mgr", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")
_BLOCK_BYTES, _MEMORY_BYTES = 9 << 30, 896 << 20
_ACCESS_KEY, _SECRET_KEY, _BUCKET = "bench", "benchbench", "bench"
_ALL = ("--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *")

_SETTINGS = """
[global]
fsid = {cluster}
mon host = {monitor}
keyring = {folder}/keyring
public network = 127.0.0.0/8
ms bind ipv6 = false
mon allow pool size one = true
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd crush chooseleaf type = 0
mon data = {folder}/mon.$id
mgr data = {folder}/mgr.$id
osd data = {folder}/osd.$id
bluestore block size = {block_bytes}
bluestore block create = true
osd memory target = {memory_bytes}
run dir = {folder}/run
pid file = {folder}/run/$name.pid
admin socket = {folder}/run/$name.asok
log file = /dev/null

[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw gc obj min wait = 1
rgw gc processor period = 5
rgw dynamic resharding = false
"""
"""Without `tcp_nodelay` each answer waits for the client's delayed acknowledgement."""


def is_installed() -> bool:
    """Return whether all programs of Ceph are on the path."""
    return all(map(shutil.which, _PROGRAMS))


@contextmanager
def rgw(base: Path) -> Iterator[Bucket]:
    """Yield an empty bucket of a gateway that lies below `base`."""
    folder, cluster, port = base / "ceph", str(uuid.uuid4()), reserve_port()
    for name in ("mon.a", "mgr.x", "osd.0", "run"):
        (folder / name).mkdir(parents=True)
    monitor = f"[v2:127.0.0.1:{reserve_port()},v1:127.0.0.1:{reserve_port()}]"
    settings = _SETTINGS.format(
        cluster=cluster,
        monitor=monitor,
        folder=folder,
        port=port,
        block_bytes=_BLOCK_BYTES,
        memory_bytes=_MEMORY_BYTES,
    )
    (folder / "ceph.conf").write_text(settings)
    environment = {**os.environ, "CEPH_CONF": str(folder / "ceph.conf")}

    def run(*command: str) -> None:
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)

    with ExitStack() as stack:

        def start(*command: str) -> subprocess.Popen:
            output = (folder / "log").open("ab")
            process = subprocess.Popen([*command, "-f"], cwd=folder, env=environment, stdout=output, stderr=output)
            stack.enter_context(stopped_at_the_end(process))
            return process

        run("ceph-authtool", "--create-keyring", "keyring", "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        for name in ("client.admin", "client.rgw"):
            run("ceph-authtool", "keyring", "--gen-key", "-n", name, *_ALL)
        run("ceph-authtool", "keyring", "--gen-key", "-n", "mgr.x", "--cap", "mon", "allow profile mgr", *_ALL[3:])
        run("ceph-authtool", "keyring", "--gen-key", "-n", "osd.0", "--cap", "mon", "allow profile osd", *_ALL[3:])
        run("monmaptool", "--create", "--fsid", cluster, "--addv", "a", monitor, "monmap")
        run("ceph-mon", "--mkfs", "-i", "a", "--monmap", "monmap", "--keyring", "keyring")
        start("ceph-mon", "-i", "a")
        disk = str(uuid.uuid4())
        run("ceph", "osd", "new", disk, "0")
        run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", disk)
        start("ceph-osd", "-i", "0")
        start("ceph-mgr", "-i", "x")
        gateway = start("radosgw", "-n", "client.rgw")
        wait_until(lambda: listens(port), gateway)
        keys = (f"--access-key={_ACCESS_KEY}", f"--secret={_SECRET_KEY}")
        run("radosgw-admin", "user", "create", "--uid=bench", "--display-name=bench", *keys)
        bucket = Bucket(f"http://127.0.0.1:{port}", _BUCKET, _ACCESS_KEY, _SECRET_KEY)
        bucket.client().create_bucket(Bucket=_BUCKET)
        yield bucket
