"""News of this app, sent on commit."""

from django.dispatch import Signal

job_changed = Signal()
"""Jobs changed state (`job_ids: list[str]`), batched per transaction. Says "look again": the rows tell the rest."""
