"""How far a transfer is, in words."""

from nearline.cli.output import Output
from nearline.cli.progress import Lines, describe, progress_of
from nearline.transfer.progress import Progress


def test_files_bytes_rate_and_what_is_left_are_said():
    moment = Progress("uploading", 12, 1797, 3_200_000, 9_900_000, rate_bytes_s=1_100_000, eta_s=6.1)

    assert describe(moment) == "Uploading 12 of 1,797 files, 3.2 MB of 9.9 MB, 1.1 MB/s, 6.1 s left"


def test_what_is_unknown_is_left_out():
    assert describe(Progress("looking", 12, None, 0, None)) == "Looking 12 files"


def test_lines_come_every_few_seconds_and_not_for_every_file():
    now, written = [0.0], []
    lines = Lines(write=written.append, clock=lambda: now[0])

    for second in range(21):
        now[0] = float(second)
        lines(Progress("uploading", second, 100, 0, None))

    assert written == [f"Uploading {done} of 100 files" for done in (5, 10, 15, 20)]


def test_quiet_shows_nothing(capsys):
    with progress_of(Output(is_quiet=True)) as show:
        show(Progress("uploading", 1, 2, 3, 4))

    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_that_is_gone_at_the_end(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")

    with progress_of(Output()) as show:
        show(Progress("uploading", 1, 2, 3, 4))

    assert "Uploading 1 of 2 files" in capsys.readouterr().err
