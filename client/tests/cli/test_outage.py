"""What people read while a server or a store is away."""

from nearline.cli.outage import OutageNotice
from nearline.cli.output import Output
from nearline.content.retry import Waiting

REASON = "Cannot reach http://server: Connection refused."


def test_an_absence_is_told_with_how_long_is_left_and_again_every_half_minute(capsys):
    now = 0.0
    notice = OutageNotice(Output(), clock=lambda: now)

    for now in (0.0, 2.0, 4.0, 20.0, 33.0, 35.0):
        notice(Waiting(REASON, now, 600.0))

    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"! {REASON} Trying again, for at most 9 min 56 s more.",
        f"! {REASON} Trying again, for at most 9 min 25 s more.",
    ]


def test_what_is_over_at_once_is_not_told(capsys):
    OutageNotice(Output())(Waiting(REASON, 2.9, 600.0))

    assert capsys.readouterr().err == ""
