"""What an attempt's job is told: command, parameters, datasets, its parents' outputs and measurements, the code."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compute.selectors import jobs as job_selectors
from compute.selectors import outputs as output_selectors
from compute.selectors import templates
from compute.selectors.states import JobState, OutputState
from compute.services.jobs import HostFolder, JobSpec, Mount, Placing, Tree, parts_variables, source_from_json
from core import hosts
from flows.engine import expressions, names
from flows.engine.expressions import Value
from flows.engine.spec import StepSpec
from flows.engine.transitions import Start, Supersede, Transition
from flows.models import Attempt, AttemptInput, Step
from flows.selectors import specs
from flows.workers import code, handover
from flows.workers.handover import NewestAttempt
from flows.workers.snapshots import Loaded


class JobSpecs:
    """Makes the job specs of one run. What many steps share (a parent's outputs) is read once."""

    def __init__(self, loaded: Loaded) -> None:
        self._run = loaded.run
        self._attempts = loaded.attempts
        self._jobs = loaded.ended.jobs
        self._silent = loaded.ended.logs.silent
        self._templates = loaded.templates
        self._specs = {step.name: step for step in loaded.spec.steps}
        self._graph = loaded.snapshot.graph
        bundle = loaded.run.version.bundle
        self._code = Mount("code", code.get_tree(loaded.run.project_id, bundle)) if bundle else None
        self._steps = loaded.steps
        self._outputs: dict[str, Mapping[int, _Output]] = {}
        self._origins: dict[tuple[str, str], Mapping[int, tuple[_Output, HostFolder | Tree | None]]] = {}
        self._variables: dict[str, Mapping[str, str]] = {}
        self._newest: dict[str, Sequence[NewestAttempt]] = {}

    def gather_inputs(self, key: str) -> None:
        """Find what a step's inputs are. Called before a transaction, which then waits for no files."""
        for parent in self._specs[key].after:
            self._outputs_of(parent)

    def find_unreadable(self, transitions: Iterable[Transition]) -> dict[tuple[str, str], str]:
        """Return why steps that are to begin cannot read what their parents left, by step and template."""
        starts = [each.start if isinstance(each, Supersede) else each for each in transitions]
        places = {(self._steps[each.step_id].key, each.template) for each in starts if isinstance(each, Start)}
        return {
            (key, template): f"cannot read what '{parent}' left: {output.why_missing.removesuffix('.')}"
            for key, template in sorted(places)
            for parent in self._specs[key].after
            for output, source in self._sources(parent, template).values()
            if source is None and output.why_missing
        }

    def build(self, step: Step, attempt: Attempt, inputs: Sequence[AttemptInput]) -> JobSpec:
        """Return what the attempt's job is told. Of its inputs only those that are staged can be mounted."""
        step_spec, node = self._specs[step.key], self._graph.by_key[step.key]
        left = {tried["template"] for tried in step.tried}
        values: dict[str, Mapping[str, Value]] = {
            "parameters": step.parameters,
            "run": {"id": self._run.pk, "number": self._run.number},
            "step": {"name": step.key, "index": step.index},
        }
        return JobSpec(
            name=attempt.job_name,
            command=expressions.fill_command(step_spec.command, values).rstrip(),
            image=step_spec.image or None,
            env=self._environment(step_spec, step, values),
            secret_names=step_spec.secrets,
            data=tuple(Mount(row.name, source_from_json(row.source)) for row in inputs if row.source),
            commits=tuple(row.commit_id for row in inputs),
            early={row.name: row.cached_commit_id for row in inputs if row.is_early},
            holder=attempt.pk,
            fallbacks=tuple(choice.template for choice in step_spec.compute if choice.template not in left),
            moves_by=node.fallback if node.moves_by_forecasts else "",
            inputs=tuple(mount for parent in step_spec.after for mount in self._inputs(parent, attempt.template)),
            parameters=step.parameters,
            append_parameters=step_spec.append_parameters,
            timeout_s=step_spec.timeout or None,
            grace_period_s=step_spec.grace_period,
            checkpoint=f"step:{step.pk}" if step_spec.checkpoints else "",
            replicas=step_spec.replicas,
            ports=step_spec.ports,
            volumes=step_spec.volumes,
            pools=specs.pools_of(self._run, step.key),
            own_cpu_millicores=step_spec.own_cpu_millicores,
            own_memory_bytes=step_spec.memory,
            placing=Placing.read(step_spec.placing),
            simulated_duration_s=step_spec.simulated_duration,
            code=self._code,
        )

    def _environment(
        self, step_spec: StepSpec, step: Step, values: Mapping[str, Mapping[str, Value]]
    ) -> dict[str, str]:
        variables = {
            "NEARLINE_RUN_ID": self._run.pk,
            "NEARLINE_RUN_NUMBER": str(self._run.number),
            "NEARLINE_FLOW": self._run.flow.name,
            "NEARLINE_STEP": step.key,
            "NEARLINE_STEP_INDEX": str(step.index),
        }
        for parent in step_spec.after:
            measured = self._measured(parent)
            if len(variables) + len(measured) <= names.MAX_VARIABLES:
                variables.update(measured)
        variables |= {key: expressions.fill(text, values) for key, text in step_spec.env.items()}
        if step_spec.completions > 1:
            variables |= parts_variables(step.index, step_spec.completions)
        return variables

    def _measured(self, parent: str) -> Mapping[str, str]:
        if parent not in self._variables:
            is_fan = self._specs[parent].is_fan
            newest = self._newest_attempts(parent)
            tries: Mapping[int, Mapping[str, Value]] = {}
            if not all(attempt.job_id in self._silent for attempt in newest):
                tries = handover.find_measured(self._run.pk, parent, newest)
            self._variables[parent] = names.result_variables(parent, tries, is_fan=is_fan)
        return self._variables[parent]

    def _newest_attempts(self, parent: str) -> Sequence[NewestAttempt]:
        if parent not in self._newest:
            known = self._find_only(parent)
            self._newest[parent] = handover.newest_attempts(self._run.pk, parent) if known is None else [known]
        return self._newest[parent]

    def _find_only(self, parent: str) -> NewestAttempt | None:
        """Return the newest attempt of a lone instance whose job has just ended; None where it is to be read."""
        if self._specs[parent].is_fan:
            return None
        for attempt in self._attempts:
            job, step = self._jobs.get(attempt.job_id or ""), attempt.step
            if step.key == parent and attempt.number == step.attempt_count and job is not None:
                has_succeeded = job.state == JobState.SUCCEEDED
                return NewestAttempt(attempt.pk, step.index, attempt.job_id, attempt.state, has_succeeded)
        return None

    def _inputs(self, parent: str, template: str) -> Iterator[Mount]:
        """Yield the parent's output; of a grid, and of parts, that of each instance under its index."""
        is_fan = self._specs[parent].is_fan
        for index, (_, source) in self._sources(parent, template).items():
            if source is not None:
                yield Mount(f"{parent}/{index}" if is_fan else parent, source)

    def _sources(self, parent: str, template: str) -> Mapping[int, tuple["_Output", HostFolder | Tree | None]]:
        """Return the parent's outputs by index, and from where jobs of a template read each."""
        if (parent, template) not in self._origins:
            outputs, place = self._outputs_of(parent), self._templates[template]
            self._origins[parent, template] = {index: (each, each.source_for(place)) for index, each in outputs.items()}
        return self._origins[parent, template]

    def _outputs_of(self, parent: str) -> Mapping[int, "_Output"]:
        """Return what the newest attempts left, by index.

        A step starts when all its parents succeeded, so these did.
        """
        if parent not in self._outputs:
            newest = self._newest_attempts(parent)
            job_ids = {attempt.step_index: attempt.job_id for attempt in newest if attempt.job_id is not None}
            jobs = {job_id: self._jobs[job_id] for job_id in job_ids.values() if job_id in self._jobs}
            jobs |= job_selectors.list_for_reading(set(job_ids.values()) - jobs.keys())
            folders = {job_id: job_selectors.find_output_folder(job) for job_id, job in jobs.items()}
            # What has just ended was sealed a moment ago.
            earlier = {
                job_id: folder
                for job_id, folder in folders.items()
                if folder is not None and job_id not in self._jobs and hosts.is_here(jobs[job_id].resource.host)
            }
            handover.restore_outputs(self._run.pk, earlier)
            self._outputs[parent] = {
                index: _Output(jobs[job_id], folders[job_id]) for index, job_id in job_ids.items() if job_id in jobs
            }
        return self._outputs[parent]


def read_inputs(attempt_ids: Collection[str]) -> dict[str, list[AttemptInput]]:
    """Return the datasets that attempts read, by attempt."""
    inputs: dict[str, list[AttemptInput]] = {attempt_id: [] for attempt_id in attempt_ids}
    for row in AttemptInput.objects.filter(attempt__in=attempt_ids).order_by("name") if attempt_ids else ():
        inputs[row.attempt_id].append(row)
    return inputs


@dataclass(frozen=True)
class _Output:
    """The job of an attempt, and the folder that it left on its host; None: there is none any more."""

    job: Any
    folder: HostFolder | None

    def source_for(self, template: Any) -> HostFolder | Tree | None:
        """Return from where jobs of a template read it: its folder, or the store. None where that holds no file."""
        if self.folder is not None and templates.reads_folders(template, self.job.resource.host):
            return self.folder
        return output_selectors.find_trees([self.job.pk]).get(self.job.pk)

    @property
    def why_missing(self) -> str:
        """Why there is no output where it cannot be read; empty where the job left no file that is stored."""
        job = self.job
        if job.resource.is_simulated or (job.output_state == OutputState.STORED and not job.output_root):
            return ""
        return job.output_error or ("It has been deleted." if job.output_root else "It is not stored.")
