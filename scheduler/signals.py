"""News of this app, for the apps above it."""

from django.dispatch import Signal

workload_evicted = Signal()
"""Workloads are to give up their room and wait again (`workload_ids: list[str]`). Sent on commit, once a batch."""

workload_placed = Signal()
"""Workloads got their room (`workload_ids: list[str]`). Sent on commit, once for each batch of a cycle."""
