"""What is read of the DCGM exporter's metrics."""

import pytest

from compute.adapters.kubernetes import fields
from compute.adapters.kubernetes.gpu_metrics import find_exporters, join_readings, read_metrics
from compute.engine.ports import GpuReading

# As dcgm-exporter 4.2 writes it, shortened.
METRICS = """
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",modelName="H100",container="main",namespace="jobs",pod="nl-train"} 90
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",modelName="H100",container="main",namespace="jobs",pod="nl-train"} 31
DCGM_FI_DEV_GPU_UTIL{gpu="2",UUID="GPU-c",modelName="H100",container="main",namespace="other",pod="nl-train"} 99
DCGM_FI_DEV_GPU_UTIL{gpu="4",UUID="GPU-e",modelName="H100",container="main",namespace="jobs",pod="nl-slice"} 0
DCGM_FI_DEV_GPU_UTIL{gpu="3",UUID="GPU-d",modelName="H100",container="",namespace="",pod=""} 5
# HELP DCGM_FI_DEV_FB_USED Framebuffer memory used (in MiB).
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",container="main",namespace="jobs",pod="nl-train"} 1024
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",container="main",namespace="jobs",pod="nl-train"} 2
DCGM_FI_DEV_FB_USED{gpu="4",GPU_I_PROFILE="1g.11gb",GPU_I_ID="7",namespace="jobs",pod="nl-slice"} 3
DCGM_FI_DEV_FB_USED{gpu="4",namespace="jobs",pod="nl-slice"} 4096
# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="4",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",namespace="jobs",pod="nl-slice"} 0.25
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="4",GPU_I_PROFILE="1g.10gb",GPU_I_ID="8",namespace="jobs",pod="nl-slices"} 0.5
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="4",GPU_I_PROFILE="2g.20gb",GPU_I_ID="3",namespace="jobs",pod="nl-slices"} 0.9
"""


def test_pods_use_the_mean_of_their_devices_and_the_sum_of_the_memory():
    assert read_metrics(METRICS, "jobs") == {
        "nl-train": GpuReading(60, 1026 * 2**20),
        # Neither the use of the whole device, which is 0 where it is cut, nor all of its memory.
        "nl-slice": GpuReading(25, 3 * 2**20),
        "nl-slices": GpuReading(70, None),
    }


def test_what_is_no_text_of_prometheus_is_refused():
    with pytest.raises(ValueError, match="could not convert"):
        read_metrics("DCGM_FI_DEV_GPU_UTIL{} <html>", "jobs")


def test_a_run_is_measured_only_where_all_its_pods_are():
    assert join_readings([GpuReading(10, 5), GpuReading(31, None)]) == GpuReading(20, None)
    assert join_readings([GpuReading(10, 5), None]) is None


@pytest.mark.parametrize("label", [{"app": "nvidia-dcgm-exporter"}, {"app.kubernetes.io/name": "dcgm-exporter"}])
def test_exporters_are_found_by_the_labels_of_the_gpu_operator_and_of_their_own_chart(label):
    meta = {"name": "dcgm-x", "namespace": "gpu-operator", "labels": label}
    pod = {"metadata": meta, "spec": {"nodeName": "a", "containers": [{}]}, "status": {"phase": "Running"}}
    other = {"metadata": {**meta, "labels": {}}, "spec": {"nodeName": "b"}, "status": {"phase": "Running"}}

    pods = [pod, other, {**pod, "status": {"phase": "Pending"}}]
    assert find_exporters([fields.trim(each, fields.FOREIGN) for each in pods]) == {
        "a": "/api/v1/namespaces/gpu-operator/pods/dcgm-x:9400/proxy/metrics"
    }
