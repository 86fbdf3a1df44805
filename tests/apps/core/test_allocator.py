import platform
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, threading
from core import allocator

{first}
together = threading.Barrier(4)
def take():
    together.wait()
    taken = bytes(10_000)
    together.wait()
threads = [threading.Thread(target=take) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


def count_arenas(first: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(first=first)], check=True, capture_output=True, text=True
    )
    return done.stdout.count("<heap nr=")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no arenas")
def test_all_threads_take_memory_from_one_place():
    assert count_arenas("") > 1

    assert count_arenas("allocator.share_memory()") == 1
