"""Counters and timers with documented names, served at /metrics in the Prometheus format."""

from prometheus_client import Counter, Histogram

TASK_SECONDS = Histogram("nearline_task_seconds", "Time that one background handler took", ["task"])
BYTES_HYDRATED = Counter("nearline_bytes_hydrated_total", "Bytes read from the store to fill cache sites")
CYCLE_SECONDS = Histogram("nearline_scheduler_cycle_seconds", "Time that one scheduling cycle took")
EVICTIONS = Counter("nearline_scheduler_evictions_total", "Workloads told to make room for others", ["reason"])
ADVANCE_SECONDS = Histogram("nearline_flow_advance_seconds", "Time that one call of advance took")
TASK_FAILURES = Counter("nearline_task_failures_total", "Background handlers that ended with an error", ["task"])
ITEM_FAILURES = Counter(
    "nearline_item_failures_total", "Items of periodic work that failed while the others went on", ["kind"]
)
