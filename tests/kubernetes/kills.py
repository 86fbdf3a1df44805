"""What becomes of jobs and copies when things are killed at random moments. Run by hand: it takes from minutes to an hour.

    python -m tests.kubernetes.kills --jobs 200 --kills 50 --fills 50 [--flips 300] [--pool] [--seed 1]

- `--jobs`: two clusters run so many jobs; one of them is killed, API server and nodes, and brought back.
- `--kills`: the same jobs, while the platform is killed with SIGKILL so often.
- `--fills`: so many copies are filled, each with a kill of the platform, of the filling pod, or of the provisioner.
- `--flips`: so many bits are flipped in a copy, in one file each, without a trace in size or time; then it is verified.
- `--pool`: copies are folders of one volume.

Nodes of jobs are simulated; copies are filled by real pods. It prints what was counted, and ends with 1 where anything
was doubled, lost, incomplete or left behind. Its small forms in the suite are test_lost_cluster.py and
test_volume_journey.py.
"""

import argparse
import contextlib
import filecmp
import os
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from datasets.engine.volumes import FILES, claim_name
from tests.journeys.product import Product
from tests.kubernetes.agent_image import AGENT_IMAGE, write_agent_image
from tests.kubernetes.attached_product import attached_product
from tests.kubernetes.conftest import running_cluster, running_control_plane
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kwok import add_node, gpu_node, start_kwok
from tests.kubernetes.provisioner import STORAGE_CLASS, Provisioner
from tests.kubernetes.rbac import grant, manifests_for

PLACES = ("lab-a", "lab-b")
SECONDS = "4s"
LIMIT_S = 1800


@dataclass
class Pods:
    """The pods of a cluster that were ever seen: of each run of a job its uids."""

    plane: ControlPlane
    namespace: str
    seen: dict[str, set[str]] = field(default_factory=dict)

    def look(self) -> None:
        for pod in self.plane.api.list(f"/api/v1/namespaces/{self.namespace}/pods"):
            name = pod["metadata"]["annotations"]["nearline.dev/name"]
            self.seen.setdefault(name, set()).add(pod["metadata"]["uid"])


@contextlib.contextmanager
def two_clusters(folder: Path) -> Iterator[tuple[Product, list[Pods]]]:
    """Run the product with two attached clusters, each with two simulated nodes."""
    product = Product(folder / "home")
    with contextlib.ExitStack() as opened:
        planes = [opened.enter_context(running_control_plane()) for _ in PLACES]
        product.start()
        opened.callback(product.stop)
        product.api("POST", "/projects", {"name": "demo"})
        found = []
        for name, plane in zip(PLACES, planes, strict=True):
            namespace = plane.create_namespace("jobs", enforce="restricted")
            grant(plane, manifests_for(namespace))
            for number in (1, 2):
                add_node(plane, gpu_node(f"{name}-{number}"))
            kubeconfig = folder / f"{name}.kubeconfig"
            kubeconfig.write_text(plane.kubeconfig_of("nearline", namespace=namespace))
            where = ["--kubeconfig", str(kubeconfig), "--namespace", namespace, "--agent-image", "agent"]
            address = ["--image", "user", "--set", "platform_url=http://nearline.test"]
            product.cli("compute", "attach", name, *where, *address, cwd=folder)
            shape = {"resource": name, "name": "small", "cpu_millicores": 500, "memory_bytes": 2**28}
            product.api("POST", "/compute/templates", shape)
            found.append(Pods(plane, namespace))
        yield product, found


def start_jobs(product: Product, folder: Path, count: int) -> None:
    """Start a run with so many jobs, half of them on each cluster."""
    steps = "".join(
        f"  - name: {place}\n    command: 'true'\n    env: {{SIMULATED_RUN_TIME: {SECONDS}}}\n"
        f"    grid: {{n: {list(range(count // 2))}}}\n    compute: [{place}.small]\n"
        for place in PLACES
    )
    work = folder / "flow"
    work.mkdir(exist_ok=True)
    (work / "flow.yaml").write_text(f"flow: many\nsteps:\n{steps}")
    product.cli("flow", "run", "flow.yaml", "--project", "demo", "--no-code", cwd=work)


def states_of(product: Product) -> Counter[str]:
    """Count the jobs by state. Simulated nodes have no logs, for which the steps of a run wait longer."""
    return Counter(job["state"] for job in product.api("GET", "/compute/jobs?limit=1000")["items"])


def audit(product: Product, jobs: int, found: list[Pods]) -> int:
    """Wait for the end of all jobs, print what became of them, and return how many were doubled or lost."""
    product.wait_for(lambda: states_of(product), lambda states: have_ended(states, jobs), limit_s=LIMIT_S)
    states = states_of(product)
    for pods in found:
        pods.look()
    uids = {name: ids for pods in found for name, ids in pods.seen.items()}
    doubled = sum(len(ids) > 1 for ids in uids.values())
    again, lost = len(uids) - jobs, jobs - states["succeeded"]
    say(f"  {jobs} jobs: {dict(states)}; {again} runs too many, {doubled} with more than one pod, {lost} lost")
    return abs(again) + doubled + abs(lost)


def have_ended(states: Counter[str], jobs: int) -> bool:
    return sum(states[state] for state in ("succeeded", "failed", "cancelled", "lost")) >= jobs


def kill_a_cluster(folder: Path, jobs: int) -> int:
    """Kill one of two clusters in the middle of the jobs, for half a minute."""
    with two_clusters(folder) as (product, found):
        start_jobs(product, folder, jobs)
        product.wait_for(lambda: states_of(product)["succeeded"], lambda done: done >= jobs // 4, limit_s=LIMIT_S)
        for pods in found:
            pods.look()
        plane = found[0].plane
        plane.programs.kill("kwok")
        plane.kill_api_server()
        say(f"  killed {PLACES[0]}: {dict(states_of(product))}")
        product.wait_for(
            lambda: {item["name"]: item["state"] for item in product.api("GET", "/compute/resources")["items"]},
            lambda states: states[PLACES[0]] == "unreachable",
        )
        time.sleep(30)
        during = states_of(product)
        plane.start_api_server()
        start_kwok(plane)
        say(f"  back after half a minute: {dict(during)}")
        return audit(product, jobs, found) + during["failed"]


def kill_the_platform(folder: Path, jobs: int, kills: int) -> int:
    """Kill the platform at random moments from the start of the jobs on."""
    with two_clusters(folder) as (product, found):
        start_jobs(product, folder, jobs)
        for _ in range(kills):
            time.sleep(random.uniform(0, 3))
            product.kill()
            product.start()
        say(f"  {kills} kills: {dict(states_of(product))}")
        return audit(product, jobs, found)


class Fills:
    """Copies of growing commits on claims of a cluster, and what can be killed meanwhile."""

    def __init__(self, product: Product, cluster, namespace: str, trident: Provisioner, folder: Path) -> None:
        self.product, self.cluster, self.namespace, self.trident = product, cluster, namespace, trident
        self.data = folder / "pictures"
        self.data.mkdir()
        for number in range(300):
            (self.data / f"{number}.bin").write_bytes(secrets.token_bytes(200_000))
        product.api("POST", "/projects", {"name": "demo"})
        product.cli("data", "init", "--project", "demo", cwd=self.data)

    def fill(self, number: int) -> list[str]:
        """Fill one copy, kill something at a random moment, and return what is wrong at the end."""
        for _ in range(20):
            (self.data / f"{random.randrange(300)}.bin").write_bytes(secrets.token_bytes(200_000))
        self.product.cli("data", "sync", cwd=self.data)
        copy = self.product.api("POST", "/datasets/demo/pictures/commits/main/cache", {"site": "lab-k8s"})
        delay_s = random.uniform(0, 9)
        time.sleep(delay_s)
        victim = random.choice((self.kill_platform, self.kill_pods, self.kill_provisioner))
        victim()
        ended = self.product.wait_for(
            lambda: self.product.api("GET", f"/cache/commits/{copy['id']}"),
            lambda now: now["state"] in {"ready", "failed"},
            limit_s=300,
        )
        faults = [] if ended["state"] == "ready" else [f"the copy failed: {ended['error']}"]
        faults += self.compare(copy["id"]) if ended["state"] == "ready" else []
        self.product.api("DELETE", "/datasets/demo/pictures/commits/main/cache?site=lab-k8s")
        self.product.wait_for(
            lambda: self.product.api("GET", f"/cache/commits/{copy['id']}")["state"],
            lambda state: state == "gone",
            limit_s=300,
        )
        faults += [f"{name} is left" for name in self.left()]
        say(f"  {number}: {victim.__name__} after {delay_s:.1f} s: {'; '.join(faults) or 'complete, then gone'}")
        return faults

    def kill_platform(self) -> None:
        self.product.kill()
        self.product.start()

    def kill_pods(self) -> None:
        self.cluster.kubectl("-n", self.namespace, "delete", "pods", "--all", "--force", "--grace-period=0")

    def kill_provisioner(self) -> None:
        self.trident.stop()
        time.sleep(2)
        self.trident.resume()

    def flip(self, count: int) -> int:
        """Flip bits in a copy, in one file each, and return how many were not found, not healed, or not told."""
        self.product.cli("data", "sync", cwd=self.data)
        self.product.cli("data", "cache", "demo/pictures@main", "--site", "lab-k8s", "--wait", cwd=self.data)
        copy = self.product.api("GET", "/cache/commits")["items"][0]
        folder, faults, round_number = self.folder_of(copy["id"]), 0, 0
        while count > 0:
            round_number += 1
            victims = random.sample(sorted(folder.glob("*.bin")), min(count, 50))
            for victim in victims:
                _flip_bit(victim)
            filecmp.clear_cache()
            wrong = len(filecmp.cmpfiles(self.data, folder, [victim.name for victim in victims], shallow=False)[1])
            self.product.api("POST", f"/cache/commits/{copy['id']}/scrub")
            events = self.product.wait_for(
                lambda: self.product.api("GET", f"/cache/commits/{copy['id']}/events?limit=1000")["items"],
                lambda events, expected=round_number: [event["kind"] for event in events].count("healed") == expected,
                limit_s=300,
            )
            damaged = [event["facts"] for event in events if event["kind"] == "damaged"][-1]
            named = {file["path"] for file in damaged["files"]} & {victim.name for victim in victims}
            left = self.compare(copy["id"])
            say(f"  {wrong} bits: {damaged['count']} found, {len(named)} named; {'; '.join(left) or 'all healed'}")
            faults += (len(victims) - len(named)) + (wrong != damaged["count"]) + len(left)
            count -= len(victims)
        return faults

    def folder_of(self, copy_id: str) -> Path:
        """Return the files of a copy."""
        copies = self.cluster.api.list(self.path("persistentvolumeclaims"))
        own = [claim for claim in copies if claim["metadata"]["name"] == claim_name(copy_id)]
        if own:
            return self.trident.folder_of(own[0]["spec"]["volumeName"]) / FILES
        return self.trident.folder_of(copies[0]["spec"]["volumeName"]) / copy_id / FILES

    def compare(self, copy_id: str) -> list[str]:
        """Return how the files of a copy differ from those that were sent."""
        folder = self.folder_of(copy_id)
        names = [path.name for path in self.data.glob("*.bin")]
        filecmp.clear_cache()  # it takes files for the same whose size and time are
        _, wrong, missing = filecmp.cmpfiles(self.data, folder, names, shallow=False)
        extra = {path.name for path in folder.iterdir()} - set(names)
        return [f"{what}: {sorted(which)[:3]}" for what, which in _named(wrong, missing, extra) if which]

    def left(self) -> list[str]:
        """Return the objects of copies that are still on the cluster."""
        kinds = ("persistentvolumeclaims", "pods", "jobs", "secrets")
        found = [item["metadata"]["name"] for kind in kinds for item in self.cluster.api.list(self.path(kind))]
        volumes = self.cluster.api.list("/api/v1/persistentvolumes")
        ours = [v for v in volumes if v["spec"]["claimRef"]["namespace"] == self.namespace]
        pools = [v["metadata"]["name"] for v in ours if v["spec"]["claimRef"]["name"].startswith("nl-pool-")]
        found += [v["metadata"]["name"] for v in ours if v["metadata"]["name"] not in pools]
        found += [f"nl-cc-{path.name}" for pool in pools for path in self.trident.folder_of(pool).glob("**/cc_*")]
        return [name for name in found if name.startswith(("nl-cc-", "pvc-"))]

    def path(self, kind: str) -> str:
        group = "/apis/batch/v1" if kind == "jobs" else "/api/v1"
        return f"{group}/namespaces/{self.namespace}/{kind}"


def _named(wrong: list[str], missing: list[str], extra: set[str]) -> list[tuple[str, object]]:
    return [("wrong", wrong), ("missing", missing), ("not of the commit", extra)]


def _flip_bit(path: Path) -> None:
    """Flip one bit of a file, and let it look as if nobody had."""
    before = path.stat()
    path.chmod(0o644)
    with path.open("r+b") as file:
        at = random.randrange(before.st_size)
        file.seek(at)
        (value,) = file.read(1)
        file.seek(at)
        file.write(bytes([value ^ 1 << random.randrange(8)]))
    path.chmod(before.st_mode & 0o777)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def fill_volumes(folder: Path, work: Callable[[Fills], int], *, is_pool: bool) -> int:
    """Do something with copies on volumes, and return how many faults it found."""
    with running_cluster() as cluster:
        cluster.node.import_image(write_agent_image(folder))
        for path in (folder, *folder.parents[:2]):
            path.chmod(path.stat().st_mode | 0o111)  # pods run as another user
        trident = Provisioner(cluster.api, folder / "volumes", retry_s=0.2)
        trident.start()
        volumes = ["--storage-class", STORAGE_CLASS, "--cache-size", "50GB"]
        volumes += ["--set", "cache_sharing=pool"] if is_pool else []
        try:
            with attached_product(cluster, folder, AGENT_IMAGE, *volumes) as (product, namespace):
                return work(Fills(product, cluster, namespace, trident, folder))
        finally:
            trident.stop()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=200, help="on two clusters, half on each; 0: none")
    parser.add_argument("--kills", type=int, default=0, help="of the platform, while the jobs run")
    parser.add_argument("--fills", type=int, default=0, help="of copies on volumes")
    parser.add_argument("--flips", type=int, default=0, help="of bits, in files of a copy")
    parser.add_argument("--pool", action="store_true", help="copies are folders of one volume")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    random.seed(chosen.seed)
    faults = 0
    parts = (
        (f"{chosen.jobs} jobs, one of two clusters is killed", chosen.jobs, lambda at: kill_a_cluster(at, chosen.jobs)),
        (
            f"{chosen.jobs} jobs at a time, the platform is killed {chosen.kills} times",
            chosen.jobs and chosen.kills,
            lambda at: kill_the_platform(at, chosen.jobs, chosen.kills),
        ),
        (
            f"{chosen.fills} copies, a kill in each",
            chosen.fills,
            lambda at: fill_volumes(
                at,
                lambda fills: sum(bool(fills.fill(number)) for number in range(1, chosen.fills + 1)),
                is_pool=chosen.pool,
            ),
        ),
        (
            f"{chosen.flips} flipped bits",
            chosen.flips,
            lambda at: fill_volumes(at, lambda fills: fills.flip(chosen.flips), is_pool=chosen.pool),
        ),
    )
    for title, is_asked, part in parts:
        if is_asked:
            say(title)
            begun_at = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="nearline-kills-") as folder:
                count = part(Path(folder))
            say(f"  {count} faults, {time.monotonic() - begun_at:.0f} s")
            faults += count
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
