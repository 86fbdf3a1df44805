"""How GPUs are counted. Nothing is imported: the programs on hosts, which have only Python, count in the same way."""

ONE_GPU = 1000
"""GPUs are counted in thousandths of a device, as parts of one can be held."""
