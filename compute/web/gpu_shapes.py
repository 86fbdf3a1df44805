"""Tells the page of quotas which templates have GPUs, so that it can warn of quotas that cover none of them."""

from collections.abc import Sequence

from compute.selectors import templates
from scheduler.selectors import gpu_shapes
from scheduler.selectors.gpu_shapes import GpuShape


def _list_shapes() -> Sequence[GpuShape]:
    rows = templates.list_with_gpus()
    return [GpuShape(row.full_name, row.resource_id, row.gpu_milli, row.pool) for row in rows]


gpu_shapes.add_source(_list_shapes)
