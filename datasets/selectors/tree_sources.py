"""Trees as places where jobs run read them: found with the database, then written to folders without it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from datasets.adapters.hydration import hydrate
from datasets.adapters.opening import open_dataset_store
from datasets.adapters.scoped import ScopedStore
from datasets.errors import TreeNotFound
from datasets.models import Dataset
from datasets.selectors.trees import TreeReader
from nearline.hydrate.disk import sync_tree
from nearline.hydrate.ports import HydrationProgress


@dataclass(frozen=True)
class TreeSource:
    """A tree in the store."""

    store: ScopedStore
    reader: TreeReader
    root: str

    def write(self, target: Path, should_stop: Callable[[], bool] = lambda: False) -> HydrationProgress:
        """Make a folder hold the tree, read-only, durable and verified; what is right there already stays.

        Raises what `hydrate` raises. An interrupted call is repeated, and goes on.
        """
        target.mkdir(exist_ok=True)
        entries = self.reader.list_entries(self.root)
        done = hydrate(self.store, entries, target, keep_existing=True, should_stop=should_stop)
        sync_tree(target)
        return done


def open_tree(dataset_id: str, root: str) -> TreeSource:
    """Find a tree that a job mounts. For the platform itself. Raises TreeNotFound when its dataset is gone."""
    dataset = Dataset.objects.select_related("store").filter(pk=dataset_id, deleted_at=None).first()
    if dataset is None:
        raise TreeNotFound("The dataset of these files was deleted.")
    return TreeSource(open_dataset_store(dataset), TreeReader(dataset), root)
