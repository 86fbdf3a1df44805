"""Threads share memory; garbage is looked for where some may be: neither in what a process loads, nor while it does."""

import gc
import platform
import subprocess
import sys

import pytest

from core import memory

PROGRAM = """
import ctypes, threading
from core import memory

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

    assert count_arenas("memory.share_arenas()") == 1


def test_later_collections_do_not_look_at_what_is_loaded():
    loaded = {id(module) for module in sys.modules.values()}

    memory.freeze_what_is_loaded()
    try:
        looked_at = {id(each) for each in gc.get_objects()}
    finally:
        gc.unfreeze()

    assert looked_at.isdisjoint(loaded)


def test_little_is_looked_for_while_a_process_loads():
    code = "import gc, config.settings; print(gc.get_threshold()[0])"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "50000\n"
