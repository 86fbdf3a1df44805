"""Reads about upload sessions."""

from accounts.actor import Actor
from accounts.permissions import require
from datasets import permissions
from datasets.errors import UploadNotFound
from datasets.models import Commit, UploadSession
from datasets.selectors.commits import get_branch


def get_upload(*, actor: Actor, upload_id: str) -> UploadSession:
    """Return a session of the actor's own. Raises UploadNotFound."""
    uploads = UploadSession.objects.select_related("dataset__store", "dataset__project")
    upload = uploads.filter(pk=upload_id, dataset__deleted_at=None).first()
    is_own = upload is not None and (upload.user_id == actor.user_id or actor.is_site_admin)
    if upload is None or not is_own:
        raise UploadNotFound("There is no such upload, or it is someone else's.")
    require(actor, permissions.COMMIT, upload.dataset.project_id)
    return upload


def head_of(*, actor: Actor, upload: UploadSession) -> Commit | None:
    """Return the commit that the session's branch is at now; None for an empty branch."""
    return get_branch(actor, upload.dataset, upload.branch).head
