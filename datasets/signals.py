"""What datasets tell those above them; each is sent when the transaction has committed."""

from django.dispatch import Signal

# Sent with commit_id: a branch has a new head.
commit_recorded = Signal()

# Sent with cached_commit_id and state: a cached commit changed its state, or its first files are there.
cached_commit_changed = Signal()
