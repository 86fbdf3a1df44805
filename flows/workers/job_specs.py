"""What an attempt's job is told: command, parameters, datasets, its parents' outputs and measurements, the code."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.conf import settings
from django.db.models import F

from compute.selectors import jobs as job_selectors
from compute.selectors import outputs as output_selectors
from compute.selectors import templates
from compute.services.jobs import HostFolder, JobSpec, Mount, Tree, source_from_json
from core import hosts
from flows.engine import names, references
from flows.engine.expressions import Value
from flows.engine.spec import FlowSpec, StepSpec
from flows.models import Attempt, AttemptInput, Run, Step
from flows.selectors import measurements
from flows.workers import code, handover


class JobSpecs:
    """Makes the job specs of one run. What many steps share (a parent's outputs) is read once.

    `jobs` are rows of jobs that are known already, by id.
    """

    def __init__(self, run: Run, spec: FlowSpec, bundle: str, jobs: Mapping[str, Any]) -> None:
        self._run = run
        self._jobs = jobs
        self._said = {step.name: step for step in spec.steps}
        self._code = Mount("code", code.get_tree(run.project_id, bundle)) if bundle else None
        self._outputs: dict[str, Mapping[int, _Output]] = {}
        self._variables: dict[str, Mapping[str, str]] = {}

    def gather_inputs(self, key: str) -> None:
        """Find what a step's inputs are. Called before a transaction, which then waits for no files."""
        for parent in self._said[key].after:
            self._outputs_of(parent)

    def build(self, step: Step, attempt: Attempt) -> JobSpec:
        """Return what the attempt's job is told."""
        said = self._said[step.key]
        values: dict[str, Mapping[str, Value]] = {
            "parameters": step.parameters,
            "run": {"id": self._run.pk, "number": self._run.number},
            "step": {"name": step.key, "index": step.index},
        }
        inputs = self._inputs_of(attempt) if said.data else []
        return JobSpec(
            name=attempt.job_name,
            command=references.fill_command(said.command, values).rstrip(),
            image=said.image or None,
            env=self._environment(said, step, values),
            secret_names=said.secrets,
            data=tuple(Mount(row.name, source_from_json(row.source)) for row in inputs),
            commits=tuple(row.commit_id for row in inputs),
            inputs=tuple(mount for parent in said.after for mount in self._inputs(parent, attempt.template)),
            parameters=step.parameters,
            append_parameters=said.append_parameters,
            timeout_s=said.timeout or None,
            simulated_duration_s=said.simulated_duration,
            code=self._code,
        )

    def _environment(self, said: StepSpec, step: Step, values: Mapping[str, Mapping[str, Value]]) -> dict[str, str]:
        variables = {
            "NEARLINE_RUN_ID": self._run.pk,
            "NEARLINE_RUN_NUMBER": str(self._run.number),
            "NEARLINE_FLOW": self._run.flow.name,
            "NEARLINE_STEP": step.key,
            "NEARLINE_STEP_INDEX": str(step.index),
        }
        for parent in said.after:
            measured = self._measured(parent)
            if len(variables) + len(measured) <= names.MAX_VARIABLES:
                variables.update(measured)
        return variables | {key: references.fill(text, values) for key, text in said.env.items()}

    def _measured(self, parent: str) -> Mapping[str, str]:
        if parent not in self._variables:
            is_grid = bool(self._said[parent].grid)
            tries = measurements.of_step(self._run.pk, parent)
            self._variables[parent] = names.result_variables(parent, tries, is_grid=is_grid)
        return self._variables[parent]

    def _inputs_of(self, attempt: Attempt) -> list[AttemptInput]:
        return list(AttemptInput.objects.filter(attempt=attempt).order_by("name"))

    def _inputs(self, parent: str, template: str) -> Iterator[Mount]:
        """Yield the parent's output; of a grid that of each instance under its index."""
        is_grid = bool(self._said[parent].grid)
        for index, output in self._outputs_of(parent).items():
            if source := output.source_on(self._hosts.get(template, hosts.ANY)):
                yield Mount(f"{parent}/{index}" if is_grid else parent, source)

    @cached_property
    def _hosts(self) -> Mapping[str, str]:
        """The hosts of templates; where there is only one host, none need be told apart."""
        return {} if settings.NEARLINE.is_embedded else templates.list_hosts()

    def _outputs_of(self, parent: str) -> Mapping[int, "_Output"]:
        """Return what the newest attempts left, by index.

        A step starts when all its parents succeeded, so these did.
        """
        if parent not in self._outputs:
            newest = Attempt.objects.filter(run=self._run, step__key=parent, number=F("step__attempt_count"))
            rows = newest.filter(job__isnull=False).order_by("step__index")
            job_ids = dict(rows.values_list("step__index", "job_id"))
            jobs = {job_id: self._jobs[job_id] for job_id in job_ids.values() if job_id in self._jobs}
            jobs |= job_selectors.list_for_reading(set(job_ids.values()) - jobs.keys())
            folders = {job_id: job_selectors.open_output(job).host_folder for job_id, job in jobs.items()}
            here = {job_id: folder for job_id, folder in folders.items() if folder is not None and folder.is_dir()}
            handover.restore_outputs(self._run.pk, here)
            self._outputs[parent] = {
                index: _Output(jobs[job_id], str(here.get(job_id) or _folder_elsewhere(jobs[job_id])))
                for index, job_id in job_ids.items()
                if job_id in jobs
            }
        return self._outputs[parent]


def _folder_elsewhere(job: Any) -> str:
    """Return the folder of an output on another host; empty: it is in none."""
    return "" if hosts.is_here(job.resource.host) else str(job.output_folder)


@dataclass(frozen=True)
class _Output:
    """The job of an attempt, and the folder that it left on its host; empty: there is none any more."""

    job: Any
    folder: str

    def source_on(self, host: str) -> HostFolder | Tree | None:
        """Return from where a job on a host reads it: another host's from the store. None where that holds no file."""
        if self.folder and host in {hosts.ANY, self.job.resource.host}:
            return HostFolder(self.folder)
        return output_selectors.find_trees([self.job.pk]).get(self.job.pk)
