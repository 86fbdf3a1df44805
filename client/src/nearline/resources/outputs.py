"""Which job left an output, and which tree the store holds of it."""

from nearline._http import Http, quoted
from nearline.errors import Conflict
from nearline.models import Output, Run
from nearline.resources.references import OutputReference
from nearline.resources.run_names import run_path
from nearline.resources.steps import find_step


def get_output(http: Http, reference: OutputReference) -> Output:
    """Return the output that a reference means.

    Raises NotFound for what does not exist, left no file (`compute.output_empty`) or was deleted
    (`compute.output_gone`), Conflict for what is not stored (`compute.output_not_stored`) or has not started
    (`client.step_not_started`), and InvalidRequest for a step with several tries.
    """
    job = reference.owner
    if reference.step:
        job = _find_job(Run.read(http.get(run_path(http, reference.owner))), reference.step)
    return Output.read(http.get("/compute/jobs" + quoted(job) + "/output"))


def _find_job(run: Run, name: str) -> str:
    """Return the job of the newest try of a step."""
    step = find_step(run, name, prefix=f"run:{run.id}/")
    job = str(step.attempts[-1].get("job_name") or "") if step.attempts else ""
    if not job:
        raise Conflict(
            f"The step '{step.label}' of run {run.id} has left no output: it is {step.state}.",
            code="client.step_not_started",
            hint="`nearline run show RUN` says how it stands.",
        )
    return job
