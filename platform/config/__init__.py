"""The project of Django: settings, addresses, commands, and what processes begin with."""

import gc

# Two thousand modules are loaded next, and nothing of them is garbage: at Python's own threshold a sixth of the time of
# a start goes into looking for some.
gc.set_threshold(50_000)
