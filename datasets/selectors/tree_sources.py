"""Trees as places where jobs run read them: found with the database, then written to folders without it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from datasets.adapters.hydration import hydrate, make_retry_policy
from datasets.adapters.opening import open_dataset_store
from datasets.adapters.scoped import ScopedStore
from datasets.errors import TreeNotFound
from datasets.models import Dataset
from datasets.selectors.trees import TreeReader
from nearline.hydrate.folder import sync_tree
from nearline.hydrate.ports import HydrationProgress


@dataclass(frozen=True)
class TreeSource:
    """A tree in the store. `dataset` has its store at hand."""

    store: ScopedStore
    dataset: Dataset
    root: str

    def write(
        self,
        target: Path,
        should_stop: Callable[[], bool] = lambda: False,
        on_wait: Callable[[str], None] = lambda _reason: None,
    ) -> HydrationProgress:
        """Make a folder hold the tree, read-only, durable and verified; what is right there already stays.

        A store that is away is waited for at every step; `on_wait` is told why, from any thread. Raises what `hydrate`
        raises. An interrupted call is repeated, and goes on.
        """
        policy = make_retry_policy(should_stop, lambda waiting: on_wait(waiting.reason))
        target.mkdir(exist_ok=True)
        entries = TreeReader(self.dataset, policy=policy).list_entries(self.root)
        done = hydrate(self.store, entries, target, keep_existing=True, should_stop=should_stop, on_wait=policy.on_wait)
        sync_tree(target)
        return done


def open_tree(dataset_id: str, root: str) -> TreeSource:
    """Find a tree that a job mounts. For the platform itself. Raises TreeNotFound when its dataset is gone."""
    dataset = Dataset.objects.select_related("store").filter(pk=dataset_id, deleted_at=None).first()
    if dataset is None:
        raise TreeNotFound("The dataset of these files was deleted.")
    return TreeSource(open_dataset_store(dataset), dataset, root)
