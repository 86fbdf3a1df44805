"""Flows on resources whose jobs do what the test says, and the turns of the platform that move them on."""

from pathlib import Path

from django.conf import settings

from accounts.models import Project
from accounts.permissions import Actor
from compute.adapters import drivers
from compute.adapters.local.kind import open_tree_folders
from compute.adapters.scripted import ScriptedDriver
from compute.engine.job_spec import Tree
from compute.engine.ports import NodeFacts
from compute.models import Job, Resource, Template
from compute.selectors import jobs as job_selectors
from compute.workers import launches, observe, probes
from datasets.models import Store
from datasets.selectors import tree_sources
from experiments.workers import artifacts
from flows.models import Attempt, Run, Step
from flows.services import flows, runs
from flows.workers import advance, staging
from scheduler.workers import cycle
from tests.factories.datasets import make_store

NODE = NodeFacts("node-1", 4_000_000, 2**44)


class World:
    """Two resources that a script drives: `this-machine` (real) and `lab`, each with a template `small`."""

    def __init__(self, root: Path) -> None:
        if not Store.objects.filter(is_default=True).exists():
            make_store(root / "store")
        self.drivers: dict[str, ScriptedDriver] = {}
        self.resources: dict[str, Resource] = {}
        for name in ("this-machine", "lab"):
            self.add_resource(name, root / name)

    def add_resource(self, name: str, root: Path, *, kind: str = "local", **fields) -> None:
        resource = Resource.objects.create(name=name, kind=kind, is_simulated=kind == "simulated", **fields)
        driver = ScriptedDriver(root, [NODE])
        drivers.install(resource, driver)
        probes.probe_resource(resource=resource)
        Template.objects.create(resource=resource, name="small", cpu_millicores=1000, memory_bytes=2**30)
        Template.objects.create(resource=resource, name="huge", cpu_millicores=10**9, memory_bytes=2**30)
        self.drivers[name], self.resources[name] = driver, resource

    def start(self, actor: Actor, project: Project, text: str, **parameters) -> Run:
        """Save a flow and start a run of it."""
        version = flows.save_version(actor=actor, project=project, text=text)
        return runs.start_run(actor=actor, version=version, parameters=parameters)

    def turn(self) -> None:
        """Let everything that ticks tick once."""
        cycle.run_once()
        launches.start_placed_jobs()
        observe.observe_all()
        staging.copy_pending_inputs()
        advance.advance_all()
        artifacts.store_artifacts()
        staging.release_inputs()

    def running(self) -> list[str]:
        """Return the names of the jobs that run now."""
        return sorted(Job.objects.filter(state="running").values_list("name", flat=True))

    def driver_of(self, job_name: str) -> ScriptedDriver:
        """Return the driver that runs a job."""
        return next(driver for driver in self.drivers.values() if job_name in driver.jobs.reports)

    def finish(self, run: Run, step: str, index: int = 0, *, prints: str = "", **end) -> None:
        """Let the newest job of a step end, and look."""
        name = newest_attempt(run, step, index).job_name
        driver = self.driver_of(name)
        if prints:
            driver.print(name, prints)
        driver.finish(name, **end)
        self.turn()

    def finish_all(self, run: Run, *, turns: int = 50) -> None:
        """Let every job succeed as soon as it runs, until the run ends."""
        for _ in range(turns):
            self.turn()
            if Run.objects.get(pk=run.pk).finished_at is not None:
                return
            for name in self.running():
                self.driver_of(name).finish(name)
        raise AssertionError(f"the run did not end: {states(run)}")


def bring_code(run: Run, step: str) -> Path:
    """Bring the code of a step's newest job to this host as its driver does, and return the folder."""
    mount = job_selectors.get_spec(newest_attempt(run, step).job).code
    assert mount is not None
    assert isinstance(mount.source, Tree)
    folders = open_tree_folders(Path(settings.NEARLINE.home))
    return folders.bring(mount.source, tree_sources.open_tree(mount.source.dataset_id, mount.source.root))


def states(run: Run) -> dict[str, str]:
    """Return the state of every step by label."""
    return {
        f"{step.key}[{step.index}]" if step.index else step.key: step.state for step in Step.objects.filter(run=run)
    }


def state_of(run: Run) -> str:
    """Return the state of a run."""
    return Run.objects.values_list("state", flat=True).get(pk=run.pk)


def newest_attempt(run: Run, step: str, index: int = 0) -> Attempt:
    """Return the newest try of a step."""
    return Attempt.objects.filter(run=run, step__key=step, step__index=index).order_by("-number")[0]
