"""The time of a server by its own clock, which may differ from ours: what it stamped is compared with that."""

from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from core import clock


class ServerTime:
    """What the `Date` of the last answer says, in whole seconds, and the time since then; ours before any answer."""

    def __init__(self) -> None:
        self._offset = timedelta(0)

    def note(self, date: str | None) -> None:
        """Take the `Date` of an answer that has just arrived; one that is missing or no date says nothing."""
        try:
            self._offset = parsedate_to_datetime(date or "") - clock.now()
        except (TypeError, ValueError):
            return

    def now(self) -> datetime:
        """Return the time of the server. It is late by a second at most, and by as long as the answer took."""
        return clock.now() + self._offset
