"""Which job left an output, and which tree the store holds of it."""

import re

from nearline._http import Http, quoted
from nearline.errors import Conflict, InvalidRequest, NotFound
from nearline.models import Output, Run, Step
from nearline.resources.references import OutputReference

_TRY = re.compile(r"(.+?)\[(\d+)\]")


def get_output(http: Http, reference: OutputReference) -> Output:
    """Return the output that a reference means.

    Raises NotFound for what does not exist, left no file (`compute.output_empty`) or was deleted
    (`compute.output_gone`), Conflict for what is not stored (`compute.output_not_stored`) or has not started
    (`client.step_not_started`), and InvalidRequest for a step with several tries.
    """
    job = reference.owner
    if reference.step:
        job = _find_job(Run.read(http.get("/runs" + quoted(reference.owner))), reference.step)
    return Output.read(http.get("/compute/jobs" + quoted(job) + "/output"))


def _find_job(run: Run, name: str) -> str:
    """Return the job of the newest try of a step."""
    step = _find_step(run, name)
    job = str(step.attempts[-1].get("job_name") or "") if step.attempts else ""
    if not job:
        raise Conflict(
            f"The step '{step.label}' of run {run.id} has left no output: it is {step.state}.",
            code="client.step_not_started",
            hint="`nearline run show RUN` says how it stands.",
        )
    return job


def _find_step(run: Run, name: str) -> Step:
    match = _TRY.fullmatch(name)
    key, index = (match[1], int(match[2])) if match else (name, None)
    steps = [step for step in run.steps if step.label == name] or [
        step for step in run.steps if step.key == key and index in {None, step.index}
    ]
    if not steps:
        known = ", ".join(step.label for step in run.steps)
        raise NotFound(f"Run {run.id} has no step '{name}'.", code="flows.step_not_found", hint=f"It has: {known}.")
    if len(steps) > 1:
        known = ", ".join(f"'run:{run.id}/{step.label}'" for step in steps)
        raise InvalidRequest(f"'{name}' has {len(steps)} tries, each with an output.", hint=f"Name one: {known}.")
    return steps[0]
