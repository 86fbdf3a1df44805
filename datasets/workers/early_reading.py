"""Reading a cached commit while it is being filled: what jobs ask, with a token that is good for one copy alone.

They may read objects of its commit's dataset as long as the copy is held for them, and say what they need next. An
object is asked for by its hash, and a token tells the root of one commit only.
"""

from collections.abc import Sequence

from accounts.errors import NotSignedIn
from accounts.permissions import Actor
from datasets.adapters.copy_tokens import read_reader
from datasets.engine.cache_states import CURRENT
from datasets.models import CachedCommit
from datasets.services import downloads
from datasets.services.downloads import Download, Wanted

_SYSTEM = Actor.system("jobs that read cached commits early")


def authenticate(secret: str) -> CachedCommit:
    """Return the copy that a token is for. Raises NotSignedIn where that is not there, or not held for its job."""
    named = read_reader(secret)
    if named is None:
        raise NotSignedIn("This is no token of who reads a cached commit.")
    copy_id, holder = named
    by_holder = {"holds__holder": holder} if holder else {"holds__isnull": False}
    held = CachedCommit.objects.filter(pk=copy_id, state__in=CURRENT, **by_holder)
    row = held.select_related("commit", "dataset__project", "dataset__store").first()
    if row is None:
        raise NotSignedIn("The job that read this cached commit has ended.")
    return row


def sign_downloads(*, copy: CachedCommit, objects: Sequence[Wanted]) -> list[Download]:
    """Sign a GET for each object of the copy's dataset."""
    return downloads.sign_below(actor=_SYSTEM, dataset=copy.dataset, objects=objects)


def request_packs(*, copy: CachedCommit, packs: Sequence[str]) -> None:
    """Have these packs fetched before others. The last request wins."""
    CachedCommit.objects.filter(pk=copy.pk).update(next_packs=list(packs))
