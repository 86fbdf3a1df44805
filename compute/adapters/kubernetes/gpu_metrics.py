"""What pods use of their GPUs, as NVIDIA's DCGM exporter tells on the nodes of a cluster: pure.

It names the pod that holds a whole device or a slice (MIG), which has an id beside its device. Who of several that
share a device uses how much, it cannot tell.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from compute.engine.ports import GpuReading

Json = Mapping[str, Any]

MOST_BYTES = 8 << 20
"""The most that is read of what an exporter says."""
_LABELS = (("app", "nvidia-dcgm-exporter"), ("app.kubernetes.io/name", "dcgm-exporter"))
_PORT = 9400
_USE, _SLICE_USE, _MEMORY_MIB = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_FB_USED"
_READ = {_USE: 1.0, _SLICE_USE: 100.0, _MEMORY_MIB: float(1 << 20)}
# The profile would not do: exporters are known to report another one than the node offers.
_DEVICE, _SLICE = "gpu", "GPU_I_ID"


def find_exporters(pods: Iterable[Json]) -> dict[str, str]:
    """Return by node the path at which the API server passes on the metrics of its exporter."""
    paths = {}
    for pod in pods:
        meta, spec = pod["metadata"], pod.get("spec", {})
        labels = meta.get("labels") or {}
        is_running = pod.get("status", {}).get("phase") == "Running"
        if is_running and spec.get("nodeName") and any(labels.get(key) == value for key, value in _LABELS):
            paths[spec["nodeName"]] = (
                f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}:{_port_of(spec)}/proxy/metrics"
            )
    return paths


def read_metrics(text: str, namespace: str) -> dict[str, GpuReading]:
    """Return what pods of a namespace use. Raises ValueError for what is no text of Prometheus."""
    pods: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples if family.name in _READ else ():
            labels = sample.labels
            if labels.get("namespace") == namespace and (pod := labels.get("pod")) and isfinite(sample.value):
                device = labels.get(_DEVICE, ""), labels.get(_SLICE, "")
                metrics = pods.setdefault(pod, {}).setdefault(device, {})
                metrics[family.name] = sample.value * _READ[family.name]
    return {pod: _join_devices(devices) for pod, devices in pods.items()}


def _join_devices(devices: Mapping[tuple[str, str], Mapping[str, float]]) -> GpuReading:
    """Return what a pod uses of its devices and slices. What is told of a slice's whole device is not its own."""
    sliced = {gpu for gpu, slice_id in devices if slice_id}
    own = {key: metrics for key, metrics in devices.items() if key[1] or key[0] not in sliced}
    uses = [
        metrics.get(_SLICE_USE) if slice_id else metrics.get(_USE, metrics.get(_SLICE_USE))
        for (_, slice_id), metrics in own.items()
    ]
    return GpuReading(
        _percent([use for use in uses if use is not None]),
        _total([metrics[_MEMORY_MIB] for metrics in own.values() if _MEMORY_MIB in metrics]),
    )


def join_readings(readings: Sequence[GpuReading | None]) -> GpuReading | None:
    """Return what the pods of one run use together; None where one of them is not measured."""
    known = [reading for reading in readings if reading is not None]
    if len(known) < len(readings) or not known:
        return None
    percents = [each.percent for each in known if each.percent is not None]
    sizes = [each.memory_used_bytes for each in known if each.memory_used_bytes is not None]
    return GpuReading(
        _percent(percents) if len(percents) == len(known) else None,
        sum(sizes) if len(sizes) == len(known) else None,
    )


def _percent(values: Sequence[float]) -> int | None:
    return round(sum(values) / len(values)) if values else None


def _total(values: Sequence[float]) -> int | None:
    return int(sum(values)) if values else None


def _port_of(spec: Json) -> int:
    ports = (port for container in spec.get("containers") or [] for port in container.get("ports") or [])
    return int(next(ports, {"containerPort": _PORT})["containerPort"])
