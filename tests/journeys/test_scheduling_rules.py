"""The numbers that users of Run:AI's scheduler rely on, scenario by scenario, through the API of one running product.

Each scenario attaches simulated nodes of its own. They are a pool beside the lab's, and those of the other scenarios.
"""

from itertools import accumulate

import pytest

from tests.journeys.product import new_product

GIB = 2**30
A100 = {"gpu_model": "A100", "gpu_memory_bytes": 40 * GIB, "mig_strategy": "dynamic"}
FOREVER_S = 100_000
END_NOW = """
from compute.models import SimulatedJob
from core import clock

for job in SimulatedJob.objects.filter(name__startswith={name!r}, duration_s={forever_s}, stopped_at=None):
    seconds = (clock.now() - job.started_at).total_seconds()
    SimulatedJob.objects.filter(pk=job.pk).update(duration_s=seconds)
"""
"""Lets what runs of a simulated job succeed now: what takes a time of its own may be over before it was looked at."""


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    product = new_product(tmp_path_factory.mktemp("rules") / "home").start()
    yield product
    product.stop()


@pytest.fixture
def attach(running, request):
    """Return a function that attaches nodes and makes projects; what runs there runs on."""

    def make(nodes: int, gpus: int, **quotas: float) -> "Site":
        name = request.node.name.removeprefix("test_").replace("_", "-")[:20].strip("-")
        return Site(running, name, nodes, gpus, quotas)

    return make


class Site:
    """Some nodes, and projects with quotas in their pool."""

    def __init__(self, product, name, nodes, gpus, quotas):
        self.product, self.name, self.projects = product, name, {}
        self.nodes = [f"{name}-n{number}" for number in range(nodes)]
        self.shape = {"cpu_millicores": 100_000, "memory_bytes": 1000 * GIB, "gpus": gpus}
        self.quotas = quotas
        self.labels = {}

    def open(self, **facts) -> "Site":
        nodes = [{"name": node, **self.shape, **facts, "labels": self.labels.get(node, {})} for node in self.nodes]
        self.product.api("POST", "/compute/resources", {"name": self.name, "kind": "simulated", "nodes": nodes})
        for project, quota in self.quotas.items():
            self.projects[project] = f"{self.name}-{project}".replace("_", "-")
            self.product.api("POST", "/projects", {"name": self.projects[project]})
            self.set_queue(project, gpu_quota_milli=round(1000 * quota))
        return self

    def set_queue(self, project, **changes) -> None:
        """Change the queue of a project in this pool."""
        path = f"/scheduler/queues/{self.projects[project]}?pool={self.name}"
        self.product.api("PATCH", path, changes)

    def submit(self, name, project, gpus=0.0, *, interactive=False, **more) -> None:
        body = {
            "project": self.projects[project],
            "name": f"{self.name}-{name}",
            "resource": self.name,
            "command": "train",
            "simulated_duration_s": FOREVER_S,
            **({"gpu_milli": round(1000 * gpus)} if gpus else {}),
            **({"is_preemptible": False, "priority": "build"} if interactive else {}),
            **more,
        }
        self.product.api("POST", "/compute/jobs", body)

    def delete(self, *names) -> None:
        for name in names:
            self.product.api("POST", f"/compute/jobs/{self.name}-{name}/cancel", {})

    def jobs(self) -> list[dict]:
        return [
            job
            for project in self.projects.values()
            for job in self.product.api("GET", f"/compute/jobs?project={project}&limit=200")["items"]
        ]

    def job(self, name) -> dict:
        return self.product.api("GET", f"/compute/jobs/{self.name}-{name}")

    def held(self) -> dict[str, float]:
        """Return the GPUs that the projects hold."""
        queues = self.product.api("GET", f"/scheduler/queues?pool={self.name}&limit=500")["items"]
        by_project = {queue["project"]: queue["gpu_held_milli"] / 1000 for queue in queues}
        return {project: by_project[name] for project, name in self.projects.items()}

    def running(self) -> set[str]:
        return {job["name"].removeprefix(f"{self.name}-") for job in self.jobs() if job["state"] == "running"}

    def wait_for(self, running, **held) -> None:
        """Wait until just these jobs run, and the projects hold so many GPUs."""
        self.product.wait_for(
            lambda: (sorted(self.running()), self.held()),
            lambda found: found == (sorted(running), held),
        )

    def wait_for_held(self, **held) -> None:
        self.product.wait_for(self.held, lambda found: found == held)

    def fair_shares(self) -> dict[str, float]:
        trial = self.product.api("POST", "/scheduler/quota-trials", {"pool": self.name, "changes": []})
        names = {name: project for project, name in self.projects.items()}
        shares = {queue["name"]: queue["fair_after_milli"] / 1000 for queue in trial["queues"]}
        return {names[name]: share for name, share in shares.items() if name in names}

    def wait_for_replicas(self, name, count) -> None:
        self.product.wait_for(lambda: len(self.job(name)["replicas"]), lambda found: found == count)

    def parts(self, name, state) -> set[str]:
        return {part["name"] for part in self.job(name)["parts"] if part["state"] == state}

    def end_parts(self, name, count) -> None:
        """Wait until so many parts of a job run, and let them succeed."""
        running = self.product.wait_for(lambda: self.parts(name, "running"), lambda names: len(names) == count)
        code = END_NOW.format(name=f"{self.name}-{name}-", forever_s=FOREVER_S)
        self.product.manage("shell", "-v", "0", "-c", code)
        self.product.wait_for(lambda: self.parts(name, "succeeded"), lambda names: names >= running)

    def evictions(self) -> dict[str, int]:
        return {job["name"].removeprefix(f"{self.name}-"): job["evictions"] for job in self.jobs() if job["evictions"]}


def test_over_quota_is_taken_back_and_split_gpus_are_consolidated(attach):
    site = attach(2, 2, a=2, b=2).open()
    site.submit("a2", "a", 2)
    site.submit("a1", "a", 1)
    site.submit("b1", "b", 1)
    site.wait_for({"a2", "a1", "b1"}, a=3, b=1)

    site.submit("b2", "b", 1)
    site.wait_for({"a2", "b1", "b2"}, a=2, b=2)  # a1 is stopped, and not the job of two GPUs
    assert site.evictions() == {"a1": 1}

    site.delete("a2")
    site.wait_for({"a1", "b1", "b2"}, a=1, b=2)
    nodes = {name: site.job(name)["node"] for name in ("a1", "b1", "b2")}
    (shared,) = [node for node in set(nodes.values()) if list(nodes.values()).count(node) == 2]
    on_shared = sorted(name for name, node in nodes.items() if node == shared)
    site.delete("b1" if "b1" in on_shared and nodes["a1"] != nodes["b2"] else "b2")
    site.wait_for({"a1", *({"b1", "b2"} & site.running())}, a=1, b=1)
    (left,) = site.running() - {"a1"}
    assert site.job("a1")["node"] != site.job(left)["node"]

    site.submit("a2-again", "a", 2)
    site.wait_for({"a1", left, "a2-again"}, a=3, b=1)
    assert site.job("a1")["node"] == site.job(left)["node"]


def test_queues_share_fairly_whatever_was_submitted_first(attach):
    site = attach(2, 2, a=1, b=1).open()
    for number in range(1, 5):
        site.submit(f"a{number}", "a", 1)
    site.wait_for({"a1", "a2", "a3", "a4"}, a=4, b=0)

    for number in range(1, 5):
        site.submit(f"b{number}", "b", 1)
    site.wait_for_held(a=2, b=2)
    assert sum(site.evictions().values()) == 2

    running = site.product.wait_for(site.running, lambda names: len(names) == 4)
    waiting = {team: sorted({f"{team}{number}" for number in range(1, 5)} - running) for team in "ab"}
    started = []
    for team in "baba":  # a job of each team ends in turn: what waits starts alternately, though all of a's came first
        before = site.running()
        site.delete(min(name for name in before if name[0] == team))
        after = site.product.wait_for(site.running, lambda names, old=before: len(names) == 4 and names != old)
        started += after - before
    assert started == [waiting["b"][0], waiting["a"][0], waiting["b"][1], waiting["a"][1]]
    assert sum(site.evictions().values()) == 2


def test_f1_idle_gpus_are_split_as_quotas_are(attach):
    site = attach(3, 4, a=3, b=1).open()
    for number in range(10):
        site.submit(f"a{number}", "a", 1)
    for number in range(4):
        site.submit(f"b{number}", "b", 1)

    site.wait_for_held(a=9, b=3)  # of 8 GPUs beyond the quotas 75 % and 25 %
    assert site.fair_shares() == {"a": 9, "b": 3}


def test_f2_gpus_beyond_quotas_are_split_by_weights(attach):
    site = attach(3, 10, p1=4, p2=6, p3=0).open()
    for project, weight, count in (("p1", 2, 12), ("p2", 3, 18), ("p3", 1, 5)):
        site.set_queue(project, over_quota_weight=weight)
        for number in range(count):
            site.submit(f"{project}-{number}", project, 1)

    site.wait_for_held(p1=11, p2=16, p3=3)  # of 20 beyond the quotas 6.67, 10 and 3.33
    assert site.fair_shares() == {"p1": 11, "p2": 16, "p3": 3}


def test_f3_equal_quotas_and_weights_of_three_to_one_give_70_and_30(attach):
    site = attach(10, 10, a=10, b=10).open()
    for project, weight in (("a", 3), ("b", 1)):
        site.set_queue(project, over_quota_weight=weight)
    for number in range(10):
        site.submit(f"b{number}", "b", 10)
    for number in range(10):
        site.submit(f"a{number}", "a", 10)

    site.wait_for_held(a=70, b=30)


def test_f4_what_a_department_holds_beyond_its_quota_is_over_quota(attach):
    site = attach(16, 10, x1=60, x2=40, y=80).open()
    for name, projects in (("x", ("x1", "x2")), ("yy", ("y",))):
        department = {"pool": site.name, "name": f"{site.name}-{name}", "gpu_quota_milli": 80_000}
        site.product.api("POST", "/scheduler/departments", department)
        for project in projects:
            site.set_queue(project, department=f"{site.name}-{name}")
    for number in range(6):
        site.submit(f"x1-{number}", "x1", 10)
    for number in range(4):
        site.submit(f"x2-{number}", "x2", 10)
    site.wait_for_held(x1=60, x2=40, y=0)

    for number in range(8):
        site.submit(f"y{number}", "y", 10)

    site.product.wait_for(
        lambda: (site.held()["x1"] + site.held()["x2"], site.held()["y"]),
        lambda found: found == (80, 80),
    )


def test_f5_a_search_goes_over_quota_gives_a_gpu_back_and_comes_to_its_end(attach):
    site = attach(1, 4, a=2, b=2).open()
    site.submit("hpo", "a", 1, parallelism=3, completions=12)
    site.wait_for_held(a=3, b=0)
    assert site.job("hpo")["reason"].startswith("0 of 12 done")

    for name in ("b1", "b2"):
        site.submit(name, "b", 1)
    site.wait_for_held(a=2, b=2)
    (preempted,) = [part["name"] for part in site.job("hpo")["parts"] if part["evictions"]]
    site.delete("b1", "b2")
    site.wait_for_held(a=3, b=0)
    for _ in range(4):
        site.end_parts("hpo", 3)

    site.product.wait_for(lambda: site.job("hpo")["state"], lambda state: state == "succeeded")
    job = site.job("hpo")
    assert (job["reason"], job["part_of"], site.held()) == ("12 of 12 done", "", {"a": 0, "b": 0})
    assert [(part["part_index"], part["state"]) for part in job["parts"]] == [(n, "succeeded") for n in range(12)]
    # What was preempted ran again as the same try.
    assert [part["evictions"] for part in job["parts"] if part["name"] == preempted] == [1]


def test_n12_never_more_than_two_parts_run_at_once(attach):
    site = attach(2, 4, a=8).open()
    site.submit("hpo1", "a", 2, parallelism=2, completions=4)
    for _ in range(2):
        site.end_parts("hpo1", 2)

    site.product.wait_for(lambda: site.job("hpo1")["state"], lambda state: state == "succeeded")

    parts = site.job("hpo1")["parts"]
    starts = [(part["started_at"], 1) for part in parts]
    ends = [(part["finished_at"], -1) for part in parts]
    assert max(accumulate(step for _, step in sorted(starts + ends))) == 2
    assert len(parts) == 4


def test_f6_and_f7_elastic_jobs_shrink_for_others_and_grow_again(attach):
    site = attach(1, 2, a=2).open()
    elastic = {"min_replicas": 1, "replicas": 2}
    site.submit("elastic1", "a", 1, **elastic)
    site.wait_for_replicas("elastic1", 2)

    site.submit("filler1", "a", 1, interactive=True)
    site.wait_for({"elastic1", "filler1"}, a=2)
    site.wait_for_replicas("elastic1", 1)
    assert site.evictions() == {}  # it went on with one replica

    site.delete("elastic1", "filler1")
    site.submit("filler2", "a", 1, interactive=True)
    site.wait_for({"filler2"}, a=1)
    site.submit("elastic2", "a", 1, replicas=4, min_replicas=1)
    site.wait_for({"elastic2", "filler2"}, a=2)
    site.wait_for_replicas("elastic2", 1)
    site.delete("filler2")
    site.wait_for_replicas("elastic2", 2)
    assert [each["message"] for each in site.job("elastic2")["events"]][-1] == "Grows from 1 to 2 of 4 replicas."


def test_f8_a_gpu_is_cut_into_slices_and_training_gives_way(attach):
    site = attach(1, 1, a=1).open(**A100)
    site.submit("by-memory", "a", gpu_memory_bytes=10 * 10**9)
    for name in ("slice1", "slice2"):
        site.submit(name, "a", mig_profile="2g.10gb")
    site.wait_for({"by-memory", "slice1", "slice2"}, a=0.75)
    parts = sorted(part.partition("@")[0] for job in site.jobs() for part in job["slices"])
    assert parts == ["0:1g.10gb", "0:2g.10gb", "0:2g.10gb"]

    site.submit("notebook", "a", mig_profile="3g.20gb", interactive=True)
    site.product.wait_for(lambda: "notebook" in site.running(), bool)
    site.wait_for_held(a=1)
    site.product.wait_for(lambda: len(site.running() - {"notebook"}), lambda count: count == 2)


def test_f10_interactive_work_takes_the_place_of_training_within_a_limit(attach):
    site = attach(1, 2, a=1).open()
    site.set_queue("a", gpu_limit_milli=1000)
    site.submit("train", "a", 1)
    site.wait_for({"train"}, a=1)

    site.submit("build", "a", 1, interactive=True)

    site.wait_for({"build"}, a=1)
    assert site.job("train")["state"] == "pending"


def test_n9_fractions_of_one_project_share_a_gpu(attach):
    site = attach(1, 2, a=1).open()
    site.submit("frac05", "a", 0.5, interactive=True)
    site.submit("frac03", "a", 0.3)

    site.wait_for({"frac05", "frac03"}, a=0.8)

    (first,), (second,) = site.job("frac05")["gpus"], site.job("frac03")["gpus"]
    assert (first[0], first[1], second[1]) == (second[0], 500, 300)


def test_n14_workers_start_together_or_not_at_all(attach):
    site = attach(2, 1, a=2).open()
    site.submit("holder", "a", 1)
    site.wait_for({"holder"}, a=1)
    site.submit("mpi", "a", 1, replicas=2, env={"RUNAI_SLEEP_SECS": "60"})
    site.product.wait_for(lambda: site.job("mpi")["reason"], bool)
    assert (site.job("mpi")["state"], site.held()) == ("pending", {"a": 1})

    site.delete("holder")

    site.wait_for({"mpi"}, a=2)
    assert sorted(each["node"] for each in site.job("mpi")["replicas"]) == site.nodes


def test_n16_an_elastic_job_starts_on_one_free_gpu_and_grows(attach):
    site = attach(1, 2, a=2).open()
    site.submit("holder", "a", 1)
    site.submit("grows", "a", 1, replicas=2, min_replicas=1)
    site.wait_for({"holder", "grows"}, a=2)
    site.wait_for_replicas("grows", 1)

    site.delete("holder")

    site.wait_for_replicas("grows", 2)


def test_replicas_come_to_one_rack_and_to_nodes_with_a_label(attach):
    site = attach(4, 1, a=4)
    for number, node in enumerate(site.nodes):
        site.labels[node] = {"rack": f"r{number % 2}", "gpu": "a100" if number else "v100"}
    site.open()
    site.submit("labelled", "a", 1, node_labels=["gpu=v100"])
    site.wait_for({"labelled"}, a=1)
    site.submit("gang", "a", 1, replicas=2, required_level="rack")

    site.wait_for({"labelled", "gang"}, a=3)

    assert site.job("labelled")["node"] == site.nodes[0]
    assert sorted(each["node"] for each in site.job("gang")["replicas"]) == [site.nodes[1], site.nodes[3]]
