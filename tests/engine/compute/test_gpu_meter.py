"""What a job used of its GPUs, from what NVML tells.

There is no GPU here: a fake library answers in the place of the loaded one, with NVML's own structures.
"""

import pynvml
import pytest

from compute.adapters.local.gpu_check import LocalGpuCheck
from compute.adapters.local.gpu_meter import NOT_MEASURED, GpuMeter, GpuReader, GpuUse, start_meter
from tests.factories.nvml import GIB, FakeDevice, FakeNvml


def read(nvml, *gpus, pids=(), knows_processes=True):
    return GpuReader(nvml, gpus, knows_processes=knows_processes).read(pids)


def test_whole_gpus_are_read_as_devices_utilisation_as_their_mean_and_memory_as_their_sum():
    nvml = FakeNvml(
        FakeDevice(percent=90, memory_bytes=3 * GIB), FakeDevice(percent=7), FakeDevice(percent=31, memory_bytes=GIB)
    )

    assert read(nvml, (0, 1000), (2, 1000), knows_processes=False) == GpuUse(60, 4 * GIB)


def test_of_a_fraction_only_the_processes_of_the_job_count():
    device = FakeDevice(
        percent=95,
        memory_bytes=70 * GIB,
        processes=[(10, GIB), (11, 2 * GIB), (99, 60 * GIB)],
        samples=[(10, 2, 20), (10, 1, 80), (11, 2, 5), (99, 2, 70)],
    )

    assert read(FakeNvml(device), (0, 500), pids=[10, 11]) == GpuUse(25, 3 * GIB)


def test_processes_that_do_nothing_have_no_samples_and_use_nothing():
    assert read(FakeNvml(FakeDevice(processes=[(10, GIB)])), (0, 500), pids=[10]) == GpuUse(0, GIB)


def test_each_reading_of_a_fraction_asks_for_what_came_after_the_last():
    newest = 2**62
    nvml = FakeNvml(FakeDevice(samples=[(10, newest, 20)]))
    reader = GpuReader(nvml, [(0, 500)], knows_processes=True)

    reader.read([10])
    reader.read([10])

    assert nvml.asked_since[1] == newest


def test_a_fraction_is_not_measured_where_processes_have_other_ids():
    assert read(FakeNvml(FakeDevice(percent=50)), (0, 500), pids=[10], knows_processes=False) == NOT_MEASURED


def test_memory_that_the_driver_does_not_tell_is_not_measured():
    device = FakeDevice(processes=[(10, None)], samples=[(10, 1, 20)])

    assert read(FakeNvml(device), (0, 500), pids=[10]) == GpuUse(20, None)


@pytest.mark.parametrize("refusal", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_NOT_SUPPORTED])
def test_one_gpu_that_does_not_answer_makes_the_whole_job_unmeasured(refusal):
    nvml = FakeNvml(FakeDevice(percent=90), FakeDevice(refusal=refusal))

    assert read(nvml, (0, 1000), (1, 1000)) == NOT_MEASURED


def test_a_gpu_that_is_not_there_is_not_measured():
    assert read(FakeNvml(), (0, 1000)) == NOT_MEASURED


def test_a_meter_tells_what_it_read_last_and_before_that_nothing():
    meter = GpuMeter(lambda: GpuUse(40, GIB))

    before = meter.newest()
    meter.measure()

    assert before == NOT_MEASURED
    assert meter.newest() == GpuUse(40, GIB)


def test_without_the_package_nothing_is_measured():
    assert start_meter("", [(0, 1000)], list, LocalGpuCheck([], None, "/nothing"))() == NOT_MEASURED
