"""TR-4858, sections 4.8 to 4.10, command by command on the simulated lab of a running product."""

import pytest

from tests.factories.tr4858 import BASIC_FAIRNESS, OVER_QUOTA_FAIRNESS, QUICKSTART, TEAMS
from tests.journeys.product import Product


class Lab:
    """The two machines of eight GPUs that the first start declares, for four teams with quotas."""

    def __init__(self, product: Product) -> None:
        self.product = product
        for team, quota in TEAMS.items():
            product.api("POST", "/projects", {"name": team})
            product.api("PATCH", f"/scheduler/queues/{team}", {"gpu_quota_milli": quota * 1000})
        for gpus in sorted({row[2] for row in (*QUICKSTART, *BASIC_FAIRNESS, *OVER_QUOTA_FAIRNESS)}):
            shape = {"cpu_millicores": 1000, "memory_bytes": 2**30, "gpu_milli": round(gpus * 1000)}
            product.api("POST", "/compute/templates", {"resource": "lab", "name": _shape(gpus), **shape})

    def run(self, rows, *, dies_after: str = "") -> None:
        """Submit the jobs of a table, and wait after each for what the table says. One may be followed by a kill."""
        for name, team, gpus, is_firm, held, waiting in rows:
            job = {"project": team, "name": name, "template": f"lab.{_shape(gpus)}", "command": "train"}
            job |= {"simulated_duration_s": 100_000, "is_preemptible": not is_firm}
            self.product.api("POST", "/compute/jobs", job)
            if name == dies_after:
                self.product.kill()
                self.product.start()
            self.wait_for(held, waiting)

    def wait_for(self, held, waiting) -> None:
        self.product.wait_for(self.outcome, lambda found: found == (pytest.approx(held), waiting, 0))

    def outcome(self):
        """Return what each team holds and how many of its jobs wait, and how many jobs are being stopped."""
        jobs = self.jobs().values()
        held = tuple(sum(_gpus(job) for job in jobs if job["project"] == team) for team in TEAMS)
        waiting = [job["project"] for job in jobs if job["state"] == "pending"]
        return held, tuple(map(waiting.count, TEAMS)), sum(job["state"] == "leaving" for job in jobs)

    def jobs(self) -> dict[str, dict]:
        return {job["name"]: job for job in self.product.api("GET", "/compute/jobs?limit=100")["items"]}

    def evictions(self) -> dict[str, int]:
        return {name: job["evictions"] for name, job in self.jobs().items() if job["evictions"]}


def _shape(gpus: float) -> str:
    return f"g{gpus:g}".replace(".", "")


def _gpus(job: dict) -> float:
    return job["gpu_milli"] / 1000 if job["state"] in {"starting", "running"} else 0


def test_quotas_are_claimed_and_given_up_command_by_command(own_product):
    lab = Lab(own_product)
    lab.run(QUICKSTART)
    interactive = {name: job["node"] for name, job in lab.jobs().items() if not job["is_preemptible"]}

    # The platform is away while capacity is claimed: what it had decided is not lost, and nothing is evicted twice.
    lab.run(BASIC_FAIRNESS, dies_after="d-3-gg")
    lab.run(OVER_QUOTA_FAIRNESS)

    assert lab.evictions() == {"b-4-gg": 1, "c-4-gg": 1}
    assert {name: lab.jobs()[name]["node"] for name in interactive} == interactive
    left = lab.product.api("GET", "/compute/jobs/c-4-gg")["events"]
    assert [event["message"] for event in left if event["state"] == "leaving"] == [
        "Another queue claims its share; team-c holds more than it may keep."
    ]

    for name in ("d-1-gggg", "d-2-gg", "d-3-gg"):
        own_product.api("POST", f"/compute/jobs/{name}/cancel", {})
    lab.wait_for((8, 4, 4, 0), (0, 1, 1, 0))
    assert lab.evictions() == {"b-4-gg": 1, "c-4-gg": 1}
