"""Topics that pages can subscribe to: `caches` (any cached commit), `copies:` and `imports:<dataset id>`."""

from accounts.actor import Actor
from datasets import signals
from datasets.errors import DatasetNotFound
from datasets.selectors import caches, datasets, in_place
from web import live


def _anybody(_actor: Actor, _key: str) -> None:
    """Everybody signed in may hear that some cached commit moved; which one, the page tells to who may see it."""


def _check_dataset(actor: Actor, dataset_id: str) -> None:
    if not datasets.list_datasets(actor=actor).filter(pk=dataset_id).exists():
        raise DatasetNotFound("There is no such dataset, or you are not a member of its project.")


live.add_kind("caches", check=_anybody, stamps=lambda keys: dict.fromkeys(keys, caches.stamp_of_all_copies()))
live.add_kind("copies", check=_check_dataset, stamps=caches.stamps_of_copies)
live.add_kind("imports", check=_check_dataset, stamps=in_place.stamps_of_imports)
signals.cached_commit_changed.connect(live.wake, dispatch_uid="datasets.live")
