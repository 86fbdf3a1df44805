"""Quantities, names and tables as people read them."""

from datetime import UTC, datetime, timedelta

import pytest

from nearline.cli import formats
from nearline.cli.commands.data.folder import slug
from nearline.cli.output import Output, align, cut, printable, width

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_950, "100 kB"),
        (999_499, "999 kB"),
        (1.5e9, "1.5 GB"),
    ],
)
def test_sizes(size_bytes, text):
    assert formats.size(size_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.42, "0.4 s"),
        (12, "12 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (7200, "2 h"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations(seconds, text):
    assert formats.duration(seconds) == text


@pytest.mark.parametrize(
    ("distance", "text"),
    [
        (timedelta(seconds=-2), "just now"),
        (timedelta(seconds=-30), "30 s ago"),
        (timedelta(minutes=-5, seconds=-59), "5 min ago"),
        (timedelta(days=3, seconds=-1), "in 3 d"),
    ],
)
def test_moments(distance, text):
    assert formats.ago(NOW + distance, now_s=NOW.timestamp()) == text


def test_a_state_is_a_sign_and_a_word():
    assert [formats.state(name) for name in ("succeeded", "failed", "queued", None)] == [
        "✔ succeeded",
        "✗ failed",
        "… queued",
        "… unknown",
    ]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Chest X-ray", "chest-x-ray"),
        ("2024 scans", "data-2024-scans"),
        ("Röntgen-Café", "rontgen-cafe"),
        ("数据", "data"),
        ("a" * 80, "a" * 63),
    ],
)
def test_a_title_becomes_a_name(title, name):
    assert slug(title) == name


def test_columns_start_at_the_same_place_also_for_wide_letters():
    assert align([["数字", "x"], ["abcde", "y"]]) == ["数字   x", "abcde  y"]
    assert width("e\u0301") == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("plain ü 数", "plain ü 数"),
        ("a\nb\x1b[2J", "a\\nb\\x1b[2J"),
        ("bad\udcff", "bad\\xff"),
        ("flip\u202e", "flip\\u202e"),
        (["a", "b"], "a, b"),
    ],
)
def test_what_reaches_a_terminal_is_harmless(value, text):
    assert printable(value) == text


@pytest.mark.parametrize(
    ("cells", "text"), [(10, "数字 waits"), (9, "数字 wai…"), (4, "数…"), (3, "数…"), (2, "…"), (1, "…")]
)
def test_a_text_is_cut_to_so_many_cells_of_a_terminal(cells, text):
    assert cut("数字 waits", cells) == text


@pytest.mark.parametrize(
    ("columns", "line"), [("40", "job-1  It waits for 2 GPUs that team-d …"), ("10", "job-1  It waits for 2 GPUs…")]
)
def test_a_sentence_at_the_end_of_a_row_ends_where_the_terminal_does(monkeypatch, capsys, columns, line):
    monkeypatch.setenv("COLUMNS", columns)
    rows = [("job-1", "It waits for 2 GPUs that team-d holds.")]

    Output().table([], ("JOB", "WHY"), rows, empty="", ends_in_prose=True)
    assert capsys.readouterr().out == "JOB    WHY\njob-1  It waits for 2 GPUs that team-d holds.\n"

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    Output().table([], ("JOB", "WHY"), rows, empty="", ends_in_prose=True)
    assert capsys.readouterr().out == f"JOB    WHY\n{line}\n"
