"""The token of a job's Jupyter. It follows from the job's id and the platform's secret key, so none is stored."""

from django.utils.crypto import salted_hmac

VARIABLE = "JUPYTER_TOKEN"
"""From this variable Jupyter takes its token."""
_SALT = "compute.jupyter"


def token_of(job_id: str) -> str:
    """Return the token of a job's Jupyter."""
    return salted_hmac(_SALT, job_id, algorithm="sha256").hexdigest()
