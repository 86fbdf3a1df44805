"""What the platform could not do for cached commits, and when it tries again."""

from collections.abc import Mapping, Sequence

from core import isolation
from core.isolation import FailureView
from datasets.models import CachedCommit
from datasets.selectors import caches

HYDRATE, REMOVE, SCRUB = "datasets.hydrate", "datasets.remove_copy", "datasets.scrub"
"""The kinds of failures; items are cached commits."""
MEASURE_SHARED = "datasets.measure_shared"
"""The kind of failures whose items are a site and a commit."""
READ_ARRAY = "datasets.read_array"
"""The kind of failures whose items are storage arrays; the pages of their sites say so."""
_WORK: Mapping[str, str] = {HYDRATE: "cache", REMOVE: "clear", SCRUB: "scrub"}


def list_failures(copies: Sequence[CachedCommit]) -> list[FailureView]:
    """Return what fails now for cached commits that the caller may see."""
    labels = {copy.pk: f"{caches.label_of(copy)} on {copy.site.name}" for copy in copies}
    return [
        FailureView.of(failure, f"{_WORK[failure.kind]} {labels[failure.item_id]}")
        for failure in isolation.find(_WORK, labels)
    ]
