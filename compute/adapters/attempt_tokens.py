"""Tokens for jobs that run elsewhere: each names one run of one job, and holds no right of its own."""

from django.core import signing

from compute.engine.ports import Launch

_SALT = "compute.attempt"


def sign_attempt(launch: Launch) -> str:
    """Return the token of a run. What it is good for is read from the database when it is used."""
    return signing.dumps([launch.job_id, launch.token], salt=_SALT)


def read_attempt(secret: str) -> tuple[str, str] | None:
    """Return the job and the fence of the run that a token names; None for what we have not signed."""
    try:
        job_id, token = signing.loads(secret, salt=_SALT)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    return str(job_id), str(token)
