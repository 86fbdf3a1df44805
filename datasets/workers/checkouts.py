"""Private copies of a commit: not cached, not shared, the caller's own to write in and to remove."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from core.removals import remove_folder
from datasets.adapters.hydration import hydrate, make_retry_policy
from datasets.adapters.opening import open_dataset_store
from datasets.errors import ReferenceNotFound, TargetNotEmpty, TargetUnwritable
from datasets.models import Commit
from datasets.selectors.trees import TreeReader
from nearline.content.retry import Waiting, ignore_waiting
from nearline.hydrate.ports import HydrationProgress, OnProgress, ignore_progress


def write_tree(
    commit_id: str,
    target: Path,
    on_progress: OnProgress = ignore_progress,
    *,
    on_wait: Callable[[Waiting], None] = ignore_waiting,
) -> HydrationProgress:
    """Write the whole tree of a commit as the folder `target`, every file verified; return what it took.

    The folder appears at once and whole: until then it grows beside its place, under a name with a dot in front,
    and what an interrupted call left there is removed first. Whether the caller may read the commit is for the caller
    to have checked. A store that is away is waited for at every step; `on_wait` is told of each wait, from any thread.
    Raises TargetNotEmpty when something is at `target`, and what `hydrate` raises.
    """
    commit = Commit.objects.select_related("dataset__store").filter(pk=commit_id).first()
    if commit is None:
        raise ReferenceNotFound(f"There is no commit {commit_id[:12]}.")
    if os.path.lexists(target):
        raise TargetNotEmpty(f"{target} exists already.")
    growing = target.with_name(f".{target.name}.partial")
    try:
        if growing.exists():
            remove_folder(growing)
        growing.mkdir(parents=True)
    except OSError as error:
        raise TargetUnwritable(f"{growing} cannot be made: {error.strerror}.") from error
    try:
        done = hydrate(
            open_dataset_store(commit.dataset),
            TreeReader(commit.dataset, policy=make_retry_policy(lambda: False, on_wait)).list_entries(commit.root),
            growing,
            read_only=False,
            on_progress=on_progress,
            on_wait=on_wait,
        )
        growing.rename(target)
    except BaseException:
        with suppress(OSError):
            remove_folder(growing)
        raise
    return done
