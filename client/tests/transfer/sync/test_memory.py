"""What a client takes of memory does not grow with what it moves."""

import subprocess
import sys

import pytest

from nearline.content.packs import TARGET_PACK_BYTES

THREADS = 4
PACKS = 64  # of 32 MiB: 2 GB


def run(*arguments):
    command = [sys.executable, "-m", "client.tests.transfer.moving_packs", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the most memory that one program had")
@pytest.mark.parametrize("direction", ["send", "receive"])
def test_moving_2_gb_takes_a_pack_for_each_thread_and_100_mb(direction):
    store = run("store")
    try:
        port = int(store.stdout.readline())
        client = run(direction, port, PACKS, THREADS)
        output, _ = client.communicate()
    finally:
        store.kill()
        store.communicate()

    bytes_moved, most_memory = map(int, output.split())
    assert bytes_moved > 2e9
    assert most_memory < THREADS * TARGET_PACK_BYTES + 100e6
