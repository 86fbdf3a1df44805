"""Garbage is looked for where some may be: neither in what a process loads, nor while it does."""

import gc
import subprocess
import sys

from core import memory


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
