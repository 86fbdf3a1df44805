"""Jobs of a host: those of the local driver, but what they read and leave goes through the platform's address."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compute.adapters.local.driver import LocalDriver
from compute.adapters.local.folders import JobFolder, write_json
from compute.adapters.local.shim_spawner import find_refusal
from compute.adapters.local.tree_folders import OnWait, ShouldStop, TreeFolders
from compute.adapters.local.views import Views
from compute.adapters.ssh.host import shim
from compute.adapters.ssh.host.attempt_calls import AttemptCalls
from compute.engine.job_spec import Mount, Tree
from compute.engine.ports import EndCause, JobReport, Launch, NodeFacts, ReportState

_LIVE = {ReportState.STARTING, ReportState.RUNNING}
# A tree that no job reads stays so long, in case that the next one does; on a host without jobs only as long as a job
# may take from finding it to mounting it.
_KEEP_TREES_S, _KEEP_TREES_WITHOUT_JOBS_S = 2 * 86_400.0, 600.0


@dataclass(frozen=True)
class AttemptTree:
    """A tree that a job may read from the platform."""

    calls: AttemptCalls
    name: str

    def write(self, target: Path, should_stop: ShouldStop, on_wait: OnWait) -> None:  # noqa: ARG002 (nobody tells why)
        """Write it into a folder."""
        self.calls.write_tree(self.name, target, should_stop)


class HostJobs:
    """The jobs of one resource on this host, all below one folder."""

    def __init__(self, folder: Path, readable: Sequence[Path] = ()) -> None:
        """Keep jobs and trees in a folder. Jobs that are confined can read the paths besides, within the home too."""
        (folder / "jobs").mkdir(mode=0o700, parents=True, exist_ok=True)
        self._jobs, self._hidden_list = folder / "jobs", folder / "hidden"
        self._hidden, self._readable = self._read_hidden(), readable
        self._trees = TreeFolders(folder / "trees", self._open_tree)
        refusal = find_refusal()
        self.driver = LocalDriver(
            self._jobs,
            None if refusal else self._make_views(),
            unconfined_reason=refusal,
            trees=self._trees,
            volumes=None,  # the platform has looked
            shim_module=shim.__name__,
        )
        self._is_confining = not refusal

    def probe(self) -> Sequence[NodeFacts]:
        """Return this machine. What no job needs any more is deleted."""
        self._delete_idle_trees(_KEEP_TREES_S)
        return self.driver.probe()

    def measure(self) -> int:
        """Return how many bytes can be written to the folder."""
        return shutil.disk_usage(self._jobs).free

    def remove(self) -> None:
        """Remove the folder of a resource that is not attached: no job was ever here."""
        shutil.rmtree(self._jobs.parent)
        with suppress(OSError):  # it holds more
            self._jobs.parent.parent.rmdir()

    @property
    def is_bringing(self) -> bool:
        """Whether a job that is about to start waits for what it reads."""
        if not self._jobs.exists():
            return False
        return any(report.state is ReportState.STARTING for report in self.driver.list_jobs())

    def hide(self, folder: Path) -> None:
        """Let jobs that start from now on see only so much of a folder as they mount."""
        if (path := str(folder)) not in self._read_hidden():
            with self._hidden_list.open("a") as file:
                file.write(f"{path}\n")

    def start(self, launch: Launch, calls: AttemptCalls) -> None:
        """Start a job that speaks with the platform by these calls. Raises what the local driver raises."""
        if self._is_confining and (hidden := self._read_hidden()) != self._hidden:
            self._hidden = hidden
            self.driver.set_views(self._make_views())
        folder = self._folder(launch.name)
        if not (folder.has_begun() or folder.is_locked()):
            attempt = Path(folder.path, shim.ATTEMPT)
            attempt.parent.mkdir(exist_ok=True)
            attempt.touch(0o600)
            write_json(str(attempt), {"url": calls.url, "token": calls.token})
        self.driver.start(launch)

    def _read_hidden(self) -> Sequence[str]:
        try:
            return self._hidden_list.read_text().splitlines()
        except FileNotFoundError:
            return []

    def _make_views(self) -> Views:
        return Views(hidden=[self._jobs.parent, *map(Path, self._hidden)], readable=self._readable)

    def list_jobs(self) -> Sequence[JobReport]:
        """Return what the local driver says, and that a job whose output was not stored has not succeeded."""
        return [self._with_output(report) for report in self.driver.list_jobs()]

    def _with_output(self, report: JobReport) -> JobReport:
        if report.state is not ReportState.SUCCEEDED:
            return report
        error = (self._folder(report.name).read(shim.OUTPUT) or {}).get("error")
        if error is None:
            return report
        reason = f"The command succeeded, but its output was not stored: {error}"
        return replace(report, state=ReportState.FAILED, cause=EndCause.OUTPUT_LOST, reason=reason)

    def describe_output(self, name: str) -> dict[str, Any]:
        """Return the job and the `root` of its output; None: it has not ended, or `error` says why there is none."""
        folder = self._folder(name)
        launch = folder.read("launch.json")
        if launch is None:
            return {"error": f"The files of {name} are not on the host.", "root": None}
        if not folder.has_ended():
            return {"job_id": launch["job_id"], "root": None}
        output = folder.read(shim.OUTPUT) or {"error": "The job ended before its output was sent."}
        return {"job_id": launch["job_id"], "root": None, **output}

    def find_reader(self, folder: Path) -> str:
        """Return a job that has not ended and reads files below a folder; empty: there is none."""
        live = (report for report in self.driver.list_jobs() if report.state in _LIVE)
        read = ((report.name, self._folder(report.name).read("launch.json") or {}) for report in live)
        return next(
            (name for name, launch in read if any(folder in Path(path).parents for path in launch.get("folders", ()))),
            "",
        )

    def delete(self, name: str) -> None:
        """Delete what a job left; with the last job what was kept for the next ones."""
        self.driver.delete(name)
        if not any(path.is_dir() and not path.name.startswith(".") for path in self._jobs.iterdir()):
            self._delete_idle_trees(_KEEP_TREES_WITHOUT_JOBS_S)

    def _delete_idle_trees(self, idle_s: float) -> None:
        launches = (self._folder(report.name).read("launch.json") for report in self.driver.list_jobs())
        used = {root for launch in launches if launch for root in launch.get("roots", ())}
        for root in self._trees.list_roots():
            if root not in used:
                self._trees.delete_idle(root, idle_s=idle_s)

    def _open_tree(self, tree: Tree, launch: Launch) -> AttemptTree:
        attempt = self._folder(launch.name).read(shim.ATTEMPT) or {}
        return AttemptTree(AttemptCalls(**attempt), _name_of(tree, launch))

    def _folder(self, name: str) -> JobFolder:
        return JobFolder(f"{self._jobs}/{name}")


def _name_of(tree: Tree, launch: Launch) -> str:
    """Return the kind and name under which a job of this launch asks for a tree."""
    spec = launch.spec
    groups: dict[str, Sequence[Mount]] = {"code": (spec.code,) if spec.code else (), "data": spec.data}
    names = (
        f"{kind}/{mount.name}"
        for kind, mounts in (groups | {"input": spec.inputs}).items()
        for mount in mounts
        if mount.source == tree
    )
    return next(names, f"checkpoint/{tree.root}")
