"""Routes for the pods of jobs. A token of a person opens none of them, and that of a pod no other."""

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router, Schema

from accounts.api import auth
from accounts.errors import NotSignedIn
from compute.models import Job
from compute.workers import attempts
from core.bodies import raw_body
from core.streaming import stream


class AttemptRequest(HttpRequest):
    """A request of the pod of a job."""

    job: Job


def authenticate_attempt(request: HttpRequest) -> Job:
    """Return the job whose pod is calling and note it on the request. Raises NotSignedIn or TooManyAttempts."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    try:
        job = attempts.authenticate(secret.strip() if scheme.lower() == "bearer" else "")
    except NotSignedIn:
        auth.note_worthless_token(request)
        raise
    request.job = job  # type: ignore[attr-defined]
    return job


router = Router(auth=authenticate_attempt)


class StoredOutputOut(Schema):
    """What the store holds of an output; without a file its root is empty."""

    root: str
    files: int
    size_bytes: int


@router.get("/attempt/trees/{kind}/{path:name}", operation_id="compute_read_attempt_tree")
def read_tree(request: AttemptRequest, kind: str, name: str) -> StreamingHttpResponse:
    """Return a tree that the calling pod's job reads, as a tar archive."""
    archive = attempts.read_tree(job=request.job, kind=kind, name=name)
    return stream(request, archive, content_type="application/x-tar")


@router.post(
    "/attempt/output",
    response=StoredOutputOut,
    operation_id="compute_store_attempt_output",
    openapi_extra=raw_body("application/x-tar"),
)
def store_output(request: AttemptRequest) -> attempts.StoredOutput:
    """Store the output of the calling pod's job: a tar archive of plain files in the order of their paths."""
    return attempts.store_output(job=request.job, stream=request)
