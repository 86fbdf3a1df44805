"""Signals of this app, for the apps above it."""

from django.dispatch import Signal

workload_evicted = Signal()
"""Workloads were evicted: stop them, then requeue them (`workload_ids: list[str]`). Sent on commit, once a batch."""

workload_placing = Signal()
"""A workload of one pod is about to be placed (`placement: ClaimedPlacement`). A receiver that claims it returns True.

Sent inside the transaction that places it, before its rows are locked. That transaction may still be rolled back.
"""

workload_placed = Signal()
"""Workloads were placed (`workload_ids: list[str]`). Sent on commit, once a batch."""

gang_placed = Signal()
"""Pods of workloads that have several were placed (`workload_ids: list[str]`). Sent on commit, once a batch."""
