"""News of this app."""

from django.dispatch import Signal

project_created = Signal()
"""A project exists (`project_id`). Sent inside the creating transaction: what belongs to it is created with it."""
