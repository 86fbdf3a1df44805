import stat

from compute.adapters.local.machine import find_gpu_place, list_gpus, read_gpu_table
from compute.engine.ports import GpuFacts

TABLE = """1, GPU-bbb, NVIDIA A100-SXM4-80GB, 81920, 00000001:C1:00.0
0, GPU-aaa, NVIDIA A100-SXM4-80GB, 81920, 00000000:41:00.0
"""


def test_gpus_are_read_in_the_order_of_the_bus():
    assert read_gpu_table(TABLE) == (
        (GpuFacts(0, "GPU-aaa", "NVIDIA A100-SXM4-80GB", 80 * 2**30), "0000:41:00.0"),
        (GpuFacts(1, "GPU-bbb", "NVIDIA A100-SXM4-80GB", 80 * 2**30), "0001:c1:00.0"),
    )


def test_lines_that_are_no_rows_are_passed_over():
    assert read_gpu_table("No devices were found\n\n[N/A], x, y, z, b\n") == ()


def test_a_machine_without_the_program_has_no_gpus():
    assert list_gpus("no-such-nvidia-smi") == ()


def test_a_program_that_fails_counts_as_no_gpus(tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexit 9\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    assert list_gpus(str(program)) == ()


def test_the_program_is_asked_for_what_is_read(tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text(
        '#!/bin/sh\n[ "$1" = "--query-gpu=index,uuid,name,memory.total,pci.bus_id" ] &&'
        ' echo "0, GPU-a, Tesla T4, 15360, 00000000:3B:00.0"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    assert list_gpus(str(program)) == (GpuFacts(0, "GPU-a", "Tesla T4", 15 * 2**30),)
    assert (find_gpu_place(0), find_gpu_place(7)) == ("0000:3b:00.0", "")
