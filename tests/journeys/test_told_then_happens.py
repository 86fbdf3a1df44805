"""What a waiting job is told (who holds what it needs, its data, the other cluster) is compared with what then happens."""

import uuid
from datetime import datetime

from tests.journeys.product import Product

SIZE_BYTES = 1_000_000
NODE = {"name": "node-1", "cpu_millicores": 64_000, "memory_bytes": 2**38, "gpus": 2, "gpu_model": "A100"}
NEAR_RATE, FAR_RATE = 50_000, 10_000
HELD_S, RUN_S = 40, 5
OFF_S = 12
"""How far what is told may be off: ends are noticed and forecasts made once in some seconds, a busy machine needs more."""


class Clusters:
    """Two simulated clusters of two GPUs, each with a site of a declared rate, and two teams."""

    def __init__(self, product: Product, folder) -> None:
        self.product = product
        key = uuid.uuid4().hex[:6]
        self.near, self.far, self.owner, self.team = (f"{name}-{key}" for name in ("near", "far", "team-d", "team-a"))
        for cluster, rate in ((self.near, NEAR_RATE), (self.far, FAR_RATE)):
            config = {"size_bytes": 10**9, "rate_bytes_s": rate}
            product.api("POST", "/cache/sites", {"name": f"{cluster}-site", "kind": "simulated", "config": config})
            place = {"name": cluster, "kind": "simulated", "nodes": [NODE], "sites": [f"{cluster}-site"]}
            product.api("POST", "/compute/resources", place)
            shape = {"cpu_millicores": 1000, "memory_bytes": 2**30, "gpu_milli": 2000}
            product.api("POST", "/compute/templates", {"resource": cluster, "name": "two", **shape})
        for team, quota in ((self.owner, 2000), (self.team, 0)):
            product.api("POST", "/projects", {"name": team})
            product.api("PATCH", f"/scheduler/queues/{team}?pool={self.near}", {"gpu_quota_milli": quota})
        (folder / "scans.bin").write_bytes(bytes(range(250)) * (SIZE_BYTES // 250))
        product.cli("data", "init", "--project", self.team, "--title", "scans", cwd=folder)
        product.cli("data", "sync", cwd=folder)

    def submit(self, project: str, seconds: float, data=()) -> str:
        name = f"{project}-job"
        job = {"project": project, "name": name, "template": f"{self.near}.two", "command": "train", "data": list(data)}
        self.product.api("POST", "/compute/jobs", {**job, "simulated_duration_s": seconds})
        return name

    def job(self, name: str) -> dict:
        return self.product.api("GET", f"/compute/jobs/{name}")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def apart_s(one: str, other: str) -> float:
    return abs((moment(one) - moment(other)).total_seconds())


def test_the_holder_the_data_and_the_other_cluster_are_told_and_then_it_happens(product, folder):
    clusters = Clusters(product, folder)
    holder = clusters.submit(clusters.owner, HELD_S)
    held = product.wait_for(lambda: clusters.job(holder), lambda job: job["state"] == "running")
    waiting = clusters.submit(clusters.team, RUN_S, [f"{clusters.team}/scans"])

    def places(outlook: dict) -> tuple[dict, dict]:
        here, there = sorted(outlook["places"], key=lambda place: not place["is_chosen"])[:2]
        return here, there

    told = product.wait_for(
        lambda: clusters.job(waiting)["outlook"],  # by the API: the start of a program may take longer than the data
        lambda outlook: outlook and outlook["places"][1:] and places(outlook)[0]["data"]["missing_bytes"],
        limit_s=SIZE_BYTES / NEAR_RATE,
    )
    here, there = places(told)

    assert told["wait_class"] == "by_right"
    assert [(each["project"], each["job"]) for each in told["holders"]] == [(clusters.owner, holder)]
    assert (here["template"], there["template"]) == (f"{clusters.near}.two", f"{clusters.far}.two")
    assert moment(there["finishes_at"]) > moment(here["finishes_at"])
    for part in (
        f"waits for 2 GPUs that {clusters.owner} ({holder}) holds by right until about",
        f"of its data are on {clusters.near}-site",
        "still move and will be there about",
        f"on {clusters.far}.two it would start about",
        "later.",
    ):
        assert part in told["text"]

    done = product.wait_for(lambda: clusters.job(waiting), lambda job: job["state"] == "succeeded")

    ended = clusters.job(holder)
    assert apart_s(told["holders"][0]["ends_at"], ended["finished_at"]) < OFF_S
    arrived = [event for event in done["events"] if event["message"].startswith("Its data is ready.")]
    assert apart_s(here["data"]["ready_at"], arrived[0]["at"]) < OFF_S
    assert apart_s(told["likely_at"], done["started_at"]) < OFF_S
    assert apart_s(here["finishes_at"], done["finished_at"]) < OFF_S
    assert (done["resource"], moment(done["started_at"]) >= moment(ended["finished_at"])) == (clusters.near, True)
    assert moment(held["started_at"]) < moment(arrived[0]["at"]) < moment(done["started_at"])
