import platform
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes
from nearline.cli import allocator

class Info(ctypes.Structure):
    _fields_ = [("size_%d" % number, ctypes.c_size_t) for number in range(10)]

{first}
freed = bytes(16 << 20)
del freed
pieces = [bytes(4 << 20) for _ in range(8)]
libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
print(libc.mallinfo2().size_4 > 8 * (4 << 20))
"""


def is_mapped(first: str) -> str:
    """Return whether large pieces are mappings of their own after a larger one was freed."""
    command = [sys.executable, "-c", PROGRAM.format(first=first)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries choose for themselves")
def test_large_pieces_of_memory_are_mapped_also_after_one_was_freed():
    assert is_mapped("") == "False"

    assert is_mapped("allocator.keep_large_pieces_apart()") == "True"
