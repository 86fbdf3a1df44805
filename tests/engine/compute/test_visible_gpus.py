"""Which GPUs a job sees, from what the driver's files, a container and NVML tell.

There is no GPU here: the texts are those that NVIDIA's programs print, and NVML is a fake with its own structures.
"""

import json
import os
import subprocess
from pathlib import Path

import pynvml
import pytest

from compute.adapters.local.gpu_check import LocalGpuCheck
from compute.engine.visible_gpus import SCRIPT, InstalledGpu, SeenGpu, VisibleGpus, find_visible, read_answer
from tests.factories.nvml import GIB, FakeDevice, FakeNvml

# As version 580 of the driver writes it.
INFORMATION = """Model: \t\t NVIDIA H200
IRQ:   \t\t 41
GPU UUID: \t {uuid}
Video BIOS: \t 96.00.a5.00.1a
Bus Type: \t PCIe
DMA Size: \t 52 bits
DMA Mask: \t 0xfffffffffffff
Bus Location: \t {place}
Device Minor: \t {minor}
GPU Firmware: \t 580.159.04
GPU Excluded:\t No
"""
FILES = "".join(
    f"information\n{INFORMATION.format(uuid=uuid, place='0000:e1:00.0', minor=minor)}"
    for minor, uuid in ((4, "GPU-e"), (5, "GPU-f"))
)
HOST = [InstalledGpu(minor, SeenGpu(f"GPU-{minor}")) for minor in (0, 1, 2, 3)]


def uuids(visible):
    return [gpu.uuid for gpu in visible.gpus]


def write_files(folder: Path, *gpus: tuple[str, int, str]) -> str:
    for place, minor, uuid in gpus:
        (folder / place).mkdir(parents=True)
        (folder / place / "information").write_text(INFORMATION.format(uuid=uuid, place=place, minor=minor))
    return str(folder)


def read_check(check: LocalGpuCheck) -> VisibleGpus | None:
    return VisibleGpus.from_json(json.loads(check.text)) if check.text else None


@pytest.mark.parametrize(
    ("variable", "seen"),
    [
        (None, ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]),
        ("2,0", ["GPU-2", "GPU-0"]),
        ("", []),
        ("1,7,2", ["GPU-1"]),
        ("GPU-3,x", ["GPU-3"]),
        ("GPU", []),
        ("-1", []),
    ],
)
def test_a_value_of_cuda_visible_devices_is_read_as_cuda_reads_it(variable, seen):
    visible = find_visible(HOST, {0, 1, 2, 3}, variable)

    assert (uuids(visible), visible.openable, visible.variable) == (seen, 4, variable)


def test_a_gpu_whose_file_cannot_be_opened_is_not_seen():
    assert find_visible(HOST, {0, 2}, "1,2") == VisibleGpus((SeenGpu("GPU-2"),), 2, "1,2")


def test_the_files_of_the_driver_tell_gpus_in_the_order_of_the_bus(tmp_path):
    files = write_files(tmp_path, ("0000:c1:00.0", 0, "GPU-b"), ("0000:41:00.0", 1, "GPU-a"))
    check = LocalGpuCheck([0, 1], "0", files)

    check.read_files()

    assert read_check(check) == VisibleGpus((SeenGpu("GPU-a"),), 2, "0")


def test_a_gpu_that_the_driver_has_not_asked_yet_is_seen_without_its_uuid(tmp_path):
    check = LocalGpuCheck(
        [0], None, write_files(tmp_path, ("0000:41:00.0", 0, "GPU-????????-????-????-????-????????????"))
    )

    check.read_files()

    assert read_check(check) == VisibleGpus((SeenGpu(""),), 1, None)


@pytest.mark.parametrize(("openable", "is_there"), [([0], False), (None, True)])
def test_without_a_driver_or_a_check_of_device_files_nothing_is_known(tmp_path, openable, is_there):
    files = write_files(tmp_path, ("0000:41:00.0", 0, "GPU-a")) if is_there else str(tmp_path / "none")
    check = LocalGpuCheck(openable, "0", files)

    check.read_files()

    assert read_check(check) is None


def test_nvml_tells_memory_too_and_the_first_slice_of_a_gpu_that_is_cut():
    devices = [FakeDevice(minor=1, uuid="GPU-a"), FakeDevice(minor=0, slices=[FakeDevice(uuid="MIG-b")])]
    check = LocalGpuCheck([0, 1], "0,1", "/nothing")

    check.ask(FakeNvml(*devices))

    assert read_check(check) == VisibleGpus((SeenGpu("GPU-a", 80 * GIB), SeenGpu("MIG-b", 10 * GIB)), 2, "0,1")


def test_what_nvml_refuses_to_tell_stays_as_the_files_have_told_it(tmp_path):
    check = LocalGpuCheck([0], "0", write_files(tmp_path, ("0000:41:00.0", 0, "GPU-a")))
    check.read_files()

    check.ask(FakeNvml(FakeDevice(refusal=pynvml.NVML_ERROR_GPU_IS_LOST)))

    assert read_check(check) == VisibleGpus((SeenGpu("GPU-a"),), 1, "0")


def test_a_container_is_checked_by_the_table_of_nvidia_smi():
    printed = """variable 1
driver
openable 0
openable 3
table
0, GPU-a, 81559, Disabled
1, GPU-b, 81559, [N/A]
end
"""

    assert read_answer(printed) == VisibleGpus((SeenGpu("GPU-b", 81559 * 2**20),), 2, "1")


def test_slices_stand_in_the_place_of_their_gpu():
    printed = """driver
openable 0
slices
table
0, GPU-a, 81559, Enabled
list
GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-a)
  MIG 1g.10gb     Device  0: (UUID: MIG-c)
  MIG 1g.10gb     Device  1: (UUID: MIG-d)
end
"""

    assert read_answer(printed) == VisibleGpus((SeenGpu("MIG-c"), SeenGpu("MIG-d")), 1, None)


@pytest.mark.parametrize(
    ("printed", "visible"),
    [
        ("end\n", None),
        ("driver\nslices\nopenable 0\nend\n", None),
        ("driver\nopenable 0\n", None),
        ("driver\ntable\nNo devices were found\nend\n", VisibleGpus((), 0, None)),
        (f"driver\nopenable 4\n{FILES}end\n", VisibleGpus((SeenGpu("GPU-e"),), 1, None)),
    ],
    ids=["no driver", "slices", "broken off", "no device", "no nvidia-smi"],
)
def test_without_nvidia_smi_a_container_is_checked_by_its_files_and_slices_are_not_known(printed, visible):
    assert read_answer(printed) == visible


@pytest.mark.parametrize(
    ("printed", "visible"),
    [
        (f"openable {'9' * 5000}\ntable\n0, GPU-a, {'9' * 5000}, Disabled\nend\n", VisibleGpus((SeenGpu("GPU-a"),))),
        (f"variable {'1' * 5000}\ntable\n0, GPU-a, 1, Disabled\nend\n", VisibleGpus((), variable=f"{'1' * 500}…")),
        ("variable \0\x1b[2J<b>\ntable\n0, GPU-a, 1, Disabled\nend\n", VisibleGpus((), variable="��[2J<b>")),
        ("table\n" + "0, GPU-a, 1, Disabled\n" * 1000 + "end\n", None),
        ("driver\nopenable 0\n" + "information\nDevice Minor: 0\n" * 1000 + "end\n", None),
        (f"driver\ninformation\nDevice Minor: {'9' * 5000}\nend\n", VisibleGpus((), 0)),
    ],
    ids=["numbers", "long variable", "not printed", "1000 rows", "1000 files", "minor number"],
)
def test_what_a_container_prints_to_do_harm_is_bounded(printed, visible):
    assert read_answer(printed) == visible


def test_the_commands_run_in_any_shell(tmp_path):
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\n[ \"$1\" = -L ] || echo '0, GPU-a, 81559, Disabled'\n")
    smi.chmod(0o755)
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "0"}

    done = subprocess.run(
        ["sh", "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    answer = read_answer(done.stdout)
    assert answer is not None
    assert (answer.gpus, answer.variable) == ((SeenGpu("GPU-a", 81559 * 2**20),), "0")
