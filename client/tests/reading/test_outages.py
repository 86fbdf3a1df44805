"""A read that waits for the store says so once, in the log of the program."""

from nearline.content.retry import Waiting
from nearline.reading.outages import OutageWarning


def test_an_outage_is_told_once_for_as_long_as_it_is_waited_for(caplog):
    now = 0.0
    warn = OutageWarning(clock=lambda: now)

    for waited_s in (0.5, 2.9, 3.0, 10.0, 300.0, 599.0):
        now = waited_s
        warn(Waiting("The store does not answer.", waited_s, 600.0))
    now = 700.0
    warn(Waiting("It is away again.", 4.0, 600.0))

    assert [(record.name, record.levelname, record.message) for record in caplog.records] == [
        ("nearline", "WARNING", "The store does not answer. Reading is tried again, for at most 597 s more."),
        ("nearline", "WARNING", "It is away again. Reading is tried again, for at most 596 s more."),
    ]
