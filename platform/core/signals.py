"""How an app tells those above it that something happened: its own signals, sent when the transaction commits.

Django's model signals are not used here, because they hide who does what.
"""

from django.db import transaction
from django.dispatch import Signal


def send_on_commit(signal: Signal, **news: object) -> None:
    """Send `signal` once the surrounding transaction has committed; at once when there is none."""
    transaction.on_commit(lambda: signal.send(sender=None, **news))
