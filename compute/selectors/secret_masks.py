"""Masking a job's secrets in what it left and people look at."""

from accounts.services import secrets
from compute.engine.job_spec import JobSpec
from compute.engine.masking import Mask
from compute.engine.secret_forms import forms_of
from compute.models import Job


def mask_beginning(job: Job | None, data: bytes, *, is_cut: bool) -> bytes:
    """Return the beginning of a file with the job's secrets replaced, by their present values.

    `is_cut`: there is more of it; then an end that may be the beginning of a secret is left out.
    """
    names = JobSpec.from_json(job.spec).secret_names if job is not None else ()
    if job is None or not names:
        return data
    mask = Mask(forms_of(secrets.find_values(project_id=job.project_id, names=names).values()))
    shown = mask.feed(data)
    return shown if is_cut else shown + mask.finish()
