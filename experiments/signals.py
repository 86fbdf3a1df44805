"""Signals of this app, and the one question that it asks the apps above it."""

from django.dispatch import Signal

outputs_stored = Signal()
"""The outputs of experiments of a run are stored or given up (`run_id: str`). Sent after the commit."""

outputs_read = Signal()
"""Which outputs are no longer as the job left them? (`run_id: str`, `source: HostFolder`), asked after reading the
folder. A receiver returns their paths, relative to the folder."""
