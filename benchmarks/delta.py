"""How long a commit takes onto a claim of a cluster: all of it anew, and as a clone of the one before and what differs.

A commit of `BENCH_FILES` files is cached on a cluster of this machine, as `make kubernetes` runs it; then, with a hundredth of the
files changed (`BENCH_SHARE`), the next one, which clones the claim of the first. Then both leave, and the second is filled anew.
With BENCH_LINK (bytes a second) the store is read over a link of that bandwidth. A clone costs an array next to nothing, so
the stand-in for Trident links files here in place of copying them: the agent writes each changed file anew. Needs
versitygw, like `data_plane`.
"""

import os
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.data_plane.trees import write_tree
from benchmarks.link import link
from benchmarks.product import Product
from tests.folders import open_folder
from tests.kubernetes import agent_image
from tests.kubernetes.attached_product import attach, reachable_product
from tests.kubernetes.conftest import running_cluster
from tests.kubernetes.network import forwarded
from tests.kubernetes.programs import missing_for_node
from tests.kubernetes.provisioner import STORAGE_CLASS, Provisioner
from tests.services import find_tools, s3

FILES = int(os.environ.get("BENCH_FILES", "20000"))
SIZE = int(os.environ.get("BENCH_SIZE", "100000"))
SHARE = float(os.environ.get("BENCH_SHARE", "0.01"))
LINK = float(os.environ.get("BENCH_LINK", "0"))
_COMMITS = "/datasets/bench/set/commits"
_LIMIT_S = 1800


class Array(Provisioner):
    """The stand-in for Trident, whose clones take as long as an array's: the files are linked, not copied."""

    def _make_folder(self, volume: str, source: str, mode: str) -> Path:
        if not source:
            return super()._make_folder(volume, source, mode)
        if not self.folder_of(volume).exists():
            subprocess.run(["cp", "--archive", "--link", self.folder_of(source), self.folder_of(volume)], check=True)
        return self.folder_of(volume)


def main() -> None:
    """Print the seconds of each way, and the ratio."""
    versitygw = find_tools()["versitygw"]
    if versitygw is None or missing_for_node():
        print(
            missing_for_node()
            or "This needs versitygw, on the path or by NEARLINE_TEST_VERSITYGW; see CONTRIBUTING.md."
        )
        return
    with ExitStack() as stack:
        base = stack.enter_context(open_folder())
        product = _start(stack, versitygw, base)
        source = base / "set"
        write_tree(source, files=FILES, size=SIZE, seed=1)
        product.cli("data", "init", "--project", "bench", "--title", "set", cwd=source)
        product.cli("data", "sync", "--quiet", cwd=source)
        way_to_store = f"a link of {LINK / 1e6:g} MB/s" if LINK else "loopback"
        load = os.getloadavg()[0]
        print(f"\n{FILES:,} files of {SIZE:,} bytes, {SHARE:.1%} changed, {way_to_store}, load {load:.1f}\n")
        print("| copy | ready after s | moved |\n| --- | --- | --- |")
        _fill(product, "the first, anew")
        changed = sorted(source.rglob("*.bin"))[:: round(1 / SHARE)]
        for path in changed:
            path.write_bytes(os.urandom(SIZE))
        first = product.api("GET", f"{_COMMITS}/main")["id"]
        product.cli("data", "sync", "--quiet", cwd=source)
        delta_s = _fill(product, "the second, clone and delta")
        for commit in ("main", first):
            _evict(product, commit)
        anew_s = _fill(product, "the second, anew")
        print(f"\nthe delta is {anew_s / delta_s:.1f} x quicker")


def _fill(product: Product, what: str) -> float:
    """Cache the newest commit, tell how it went, and return its seconds."""
    began = time.monotonic()
    asked = product.api("POST", f"{_COMMITS}/main/cache", {"site": "cluster"})
    copy = product.wait_for(
        lambda: product.api("GET", f"/cache/commits/{asked['id']}"),
        lambda copy: copy["state"] in {"ready", "failed"},
        limit_s=_LIMIT_S,
    )
    took_s = time.monotonic() - began
    if copy["state"] == "failed":
        raise SystemExit(copy["error"])
    print(f"| {what} | {took_s:.1f} | {copy['bytes_moved'] / 1e6:,.0f} MB |", flush=True)
    return took_s


def _evict(product: Product, commit: str) -> None:
    product.api("DELETE", f"{_COMMITS}/{commit}/cache?site=cluster")
    product.wait_for(
        lambda: [copy["state"] for copy in product.api("GET", "/cache/commits")["items"]],
        lambda states: all(state in {"ready", "gone"} for state in states),
        limit_s=_LIMIT_S,
    )


def _start(stack: ExitStack, versitygw: Path, base: Path) -> Product:
    store = stack.enter_context(s3(versitygw, base))
    port = urlsplit(store["NEARLINE_TEST_S3"]).port
    assert port is not None
    if LINK:
        port = stack.enter_context(link(port, bytes_per_s=LINK))
    cluster = stack.enter_context(running_cluster())
    port = stack.enter_context(forwarded(cluster.node.address, port))
    settings = {
        "NEARLINE_STORE_URL": f"s3://{store['NEARLINE_TEST_BUCKET']}/ours?endpoint=http://{cluster.node.address}:{port}",
        "NEARLINE_STORE_ACCESS_KEY": store["NEARLINE_TEST_S3_ACCESS_KEY"],
        "NEARLINE_STORE_SECRET_KEY": store["NEARLINE_TEST_S3_SECRET_KEY"],
    }
    product = stack.enter_context(reachable_product(cluster, base / "home", **settings))
    product.cli("project", "create", "bench", cwd=base)
    cluster.node.import_image(agent_image.write_agent_image(base / "agent"))
    volumes = stack.enter_context(open_folder()) / "volumes"
    array = Array(cluster.api, volumes, retry_s=0.2)
    array.start()
    stack.callback(shutil.rmtree, volumes, ignore_errors=True)
    stack.callback(array.stop)
    attach(product, cluster, base, "cluster", agent_image.AGENT_IMAGE, "--storage-class", STORAGE_CLASS)
    return product


if __name__ == "__main__":
    main()
