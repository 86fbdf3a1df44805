"""News of this app, sent on commit."""

from django.dispatch import Signal

run_changed = Signal()
"""Something happened in a run (`run_id: str`). Says "look again": the rows tell the rest."""
