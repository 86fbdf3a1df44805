"""Signals of this app, for the apps above it."""

from django.dispatch import Signal

workload_evicted = Signal()
"""Workloads were evicted: stop them, then requeue them (`workload_ids: list[str]`). Sent on commit, once a batch."""

workload_placed = Signal()
"""Workloads were placed (`workload_ids: list[str]`). Sent on commit, once a batch."""
