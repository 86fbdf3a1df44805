"""Reads the space of the storage arrays behind cache sites. One that does not answer delays nothing else."""

from core import clock, isolation
from core.errors import PlatformError
from datasets.adapters.ontap import open_array
from datasets.models import SiteArray
from datasets.selectors import failures

_AT_ONCE = 50


def read_arrays() -> int:
    """Read every array that is due, and return how many were read. One that failed is tried less and less often."""
    rows = isolation.take(failures.READ_ARRAY, SiteArray.objects.order_by("read_at", "pk"), _AT_ONCE)
    return len(isolation.for_each(failures.READ_ARRAY, rows, _read))


def _read(array: SiteArray) -> None:
    rows = SiteArray.objects.filter(pk=array.pk)
    try:
        space = open_array(array).read_space()
    except PlatformError as error:
        rows.update(failed_at=array.failed_at or clock.now(), error=error.message)
        raise
    rows.update(space=[each.to_json() for each in space], read_at=clock.now(), failed_at=None, error="")
