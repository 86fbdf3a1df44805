"""How soon a training has its first batch of a commit that is cached nowhere: waiting for all of it, and starting early.

The same set is read by a job that waits for the whole copy and, as another dataset, by one that starts early; both begin
with the first batch. `bytes before` is what was read from the store by then, by who fills the copy, which goes on meanwhile, and by
the job. With BENCH_LINK (bytes a second) the store is read over a link of that bandwidth, shared by all who read: syncs are
not limited. The stages tell what the job's time went to. Needs versitygw, like `data_plane`. Seconds say little on a busy
machine; bytes do.

BENCH_SITE says where the job runs and its data is cached: `folder` of this machine, a host by `ssh` (an sshd on loopback), or a
`claim` for each commit or a `pool` on a cluster of this machine, as `make kubernetes` runs it.
"""

import json
import os
import re
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.data_plane.trees import write_tree
from benchmarks.link import link
from benchmarks.product import Product, running
from tests.contracts.compute.ssh.sshd import USER, Sshd
from tests.folders import open_folder
from tests.kubernetes import agent_image
from tests.kubernetes.attached_product import attach, reachable_product
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.conftest import running_cluster
from tests.kubernetes.network import forwarded
from tests.kubernetes.provisioner import STORAGE_CLASS, Provisioner
from tests.services import find_tools, s3

FILES = int(os.environ.get("BENCH_FILES", "2000"))
SIZE = int(os.environ.get("BENCH_SIZE", "400000"))
BATCH = int(os.environ.get("BENCH_BATCH", "32"))
WAYS = os.environ.get("BENCH_WAYS", "waits early").split()
LINK = float(os.environ.get("BENCH_LINK", "0"))
SITE = os.environ.get("BENCH_SITE", "folder")

_JOB = """
import time
started = time.time()
import json, os, sys
from itertools import islice
from pathlib import Path
import nearline
from nearline.resources.early_data import EarlyRoutes

name, is_early, batch = sys.argv[1], sys.argv[2] == "early", int(sys.argv[3])
read = 0
receive = EarlyRoutes.receive

def count_and_receive(routes, request, allocate, byte_range=None):
    global read
    data = receive(routes, request, allocate, byte_range)
    read += len(data)
    return data

EarlyRoutes.receive = count_and_receive
folder = Path(os.environ["NEARLINE_DATA"]) / name
began = time.time()
if is_early:
    files = nearline.open_data(name)
    stream = files.stream(shuffle=1)
    first = [next(stream)]
    first_file = time.time()
    first += islice(stream, batch - 1)
else:
    first_file = time.time()
    first = [path.read_bytes() for path in islice(sorted(folder.rglob("*.bin")), batch)]
at = time.time()
there = sum(path.stat().st_size for path in folder.rglob("*.bin"))
if is_early:
    nearline.data(name)
print(json.dumps({"began": began, "first": at, "there": there, "read": read, "complete": time.time(), "started": started,
    "first_file": first_file}))
"""


@dataclass(frozen=True)
class Place:
    """Where the jobs run: a template, the Python there, and more options of a submission."""

    template: str = "this-machine.small"
    python: str = "python"
    options: tuple[str, ...] = ()


def main() -> None:
    """Print when the first batch was there, and what had been read by then."""
    versitygw = find_tools()["versitygw"]
    if versitygw is None:
        print("This needs versitygw, on the path or by NEARLINE_TEST_VERSITYGW; see CONTRIBUTING.md.")
        return
    with ExitStack() as stack:
        base = stack.enter_context(open_folder())
        product, place = _start(stack, versitygw, base)
        code = base / "code"
        code.mkdir()
        (code / "read.py").write_text(_JOB)
        total = FILES * SIZE
        # Where a job has run before, as anywhere but on a new installation.
        first = product.cli_json(
            "job", "submit", "true", "--template", place.template, *place.options, "--project", "bench", cwd=base
        )
        product.cli("job", "logs", first["name"], "--follow", cwd=base)
        way_to_store = f"a link of {LINK / 1e6:g} MB/s" if LINK else "loopback"
        print(
            f"\n{FILES:,} files of {SIZE:,} bytes, {way_to_store}, first batch of {BATCH}, {SITE}, load {os.getloadavg()[0]:.1f}\n"
        )
        print(
            "| the job | first batch after s | of it in the job | all there after s | bytes before / all | read by the job / all |"
        )
        print("| --- | --- | --- | --- | --- | --- |")
        stages: dict[str, dict[str, float]] = {}
        for number, way in enumerate(WAYS):
            name = f"set-{way}"
            source = base / name
            write_tree(source, files=FILES, size=SIZE, seed=number)
            product.cli("data", "init", "--project", "bench", "--title", name, cwd=source)
            product.cli("data", "sync", "--quiet", cwd=source)
            options = ["--data", f"bench/{name}@main", "--code", str(code), "--template", place.template]
            options += place.options
            options += ["--start-early"] if way == "early" else []
            began = time.time()
            command = f"{place.python} read.py {name} {way} {BATCH}"
            job = product.cli_json("job", "submit", command, *options, "--project", "bench", cwd=base)
            log = product.cli("job", "logs", job["name"], "--follow", cwd=base).stdout
            sent_at = json.loads(re.findall(r"^\{.*\}$", log, re.MULTILINE)[-1])
            share = min(1.0, (sent_at["there"] + sent_at["read"]) / total)
            print(
                f"| {way} | {sent_at['first'] - began:.2f} | {sent_at['first'] - sent_at['began']:.2f} "
                f"| {sent_at['complete'] - began:.2f} | {share:.1%} | {sent_at['read'] / total:.1%} |"
            )
            stages[way] = _stages_of(product, job["name"], began, sent_at)
        for way, moments in stages.items():
            print(f"\n| stage, {way} | after s |\n| --- | --- |")
            for stage, after_s in moments.items():
                print(f"| {stage} | {after_s:.2f} |")


def _start(stack: ExitStack, versitygw: Path, base: Path) -> tuple[Product, Place]:
    store = stack.enter_context(s3(versitygw, base))
    port = urlsplit(store["NEARLINE_TEST_S3"]).port
    assert port is not None
    if LINK:
        port = stack.enter_context(link(port, bytes_per_s=LINK))
    cluster = stack.enter_context(running_cluster()) if SITE in {"claim", "pool"} else None
    if cluster:
        port = stack.enter_context(forwarded(cluster.node.address, port))
    address = cluster.node.address if cluster else "127.0.0.1"
    settings = {
        "NEARLINE_STORE_URL": f"s3://{store['NEARLINE_TEST_BUCKET']}/ours?endpoint=http://{address}:{port}",
        "NEARLINE_STORE_ACCESS_KEY": store["NEARLINE_TEST_S3_ACCESS_KEY"],
        "NEARLINE_STORE_SECRET_KEY": store["NEARLINE_TEST_S3_SECRET_KEY"],
    }
    started = reachable_product(cluster, base / "home", **settings) if cluster else running(**settings)
    product = stack.enter_context(started)
    product.cli("project", "create", "bench", cwd=base)
    if cluster:
        return product, _attach_cluster(stack, product, cluster, base)
    return product, _attach_host(stack, product, base) if SITE == "ssh" else Place()


def _attach_host(stack: ExitStack, product: Product, base: Path) -> Place:
    sshd = Sshd(base / "host")
    stack.callback(sshd.kill)
    (base / "known").write_text(sshd.known_host)
    address = ["--ssh", f"{USER}@127.0.0.1:{sshd.port}", "--key", str(sshd.folder / "client")]
    folders = ["--set", f"host_folder={sshd.folder}/nearline", "--cache-folder", str(sshd.folder / "cache")]
    product.cli("compute", "attach", "host", *address, "--known-host", str(base / "known"), *folders, cwd=base)
    _make_template(product, "host")
    return Place("host.learning", sys.executable)


def _attach_cluster(stack: ExitStack, product: Product, cluster: Cluster, base: Path) -> Place:
    for image in (agent_image.write_agent_image(base / "agent"), agent_image.write_learning_image(base / "learning")):
        cluster.node.import_image(image)
    provisioner = Provisioner(cluster.api, stack.enter_context(open_folder()) / "volumes", retry_s=0.2)
    provisioner.start()
    stack.callback(provisioner.stop)
    options = ["--storage-class", STORAGE_CLASS, "--cache-size", "20GB"]
    options += ["--set", "cache_sharing=pool"] if SITE == "pool" else []
    attach(product, cluster, base, "cluster", agent_image.AGENT_IMAGE, *options)
    _make_template(product, "cluster")
    return Place("cluster.learning", options=("--image", agent_image.LEARNING_IMAGE))


def _make_template(product: Product, resource: str) -> None:
    shape = {"resource": resource, "name": "learning", "cpu_millicores": 1000, "memory_bytes": 2**29}
    product.api("POST", "/compute/templates", shape)


def _stages_of(product: Product, job: str, began: float, sent_at: dict[str, float]) -> dict[str, float]:
    """Return when each stage of a job was reached, in seconds after it was submitted."""
    events = product.api("GET", f"/compute/jobs/{job}")["events"]
    moments = {event["message"] or event["state"]: datetime.fromisoformat(event["at"]).timestamp() for event in events}
    moments |= {"its interpreter runs": sent_at["started"], "nearline is imported": sent_at["began"]}
    moments |= {"first file": sent_at["first_file"]}
    moments["first batch"] = sent_at["first"]
    return {stage: at - began for stage, at in sorted(moments.items(), key=lambda pair: pair[1])}
