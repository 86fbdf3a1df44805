"""What is loaded when a process begins to serve is left out of all later collections."""

import gc
import sys

from core import garbage


def test_later_collections_do_not_look_at_what_is_loaded():
    loaded = {id(module) for module in sys.modules.values()}

    garbage.leave_out_what_is_loaded()
    try:
        looked_at = {id(each) for each in gc.get_objects()}
    finally:
        gc.unfreeze()

    assert looked_at.isdisjoint(loaded)
