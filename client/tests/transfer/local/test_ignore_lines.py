"""An ignore file means what it means to git, which is asked."""

import os
import subprocess
import tempfile
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearline.content.ignore import read_line
from nearline.errors import InvalidRequest
from nearline.transfer.local.walk import IgnoreRules, read_rules

NAMES = ["a", "b", "ab", "abc", "a.b", "b c", "-", "]", "[a", "!a", "#a", "a ", "1", "A", "\\", "*", "a-b", "foo", "^"]
PATHS = sorted(
    {*NAMES, *(f"{top}/{name}" for top in NAMES[:6] for name in NAMES), "a/b/c", "a/b/ab", "foo/x/b", "ab/a/b/a"}
)


def ignored_by_git(lines: Sequence[str], paths: Sequence[str]) -> set[str]:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", "--template=", folder], check=True)
        with open(os.path.join(folder, ".gitignore"), "wb") as file:
            file.write("\n".join(lines).encode())
        done = subprocess.run(
            ["git", "-C", folder, "-c", "core.excludesFile=", "check-ignore", "--no-index", "-z", "--stdin"],
            input="\0".join(paths).encode(),
            capture_output=True,
            check=False,
        )
        assert done.returncode in {0, 1}, done.stderr
        return {name for name in done.stdout.decode().split("\0") if name}


def ignored_by_us(lines: Sequence[str], paths: Sequence[str]) -> set[str]:
    rules = IgnoreRules(lines)
    return {path for path in paths if rules.covers(path.encode())}


@pytest.mark.parametrize(
    "lines",
    [
        ["*.b"],
        ["a*", "!ab"],
        ["/a"],
        ["a/"],
        ["a/b"],
        ["a/**"],
        ["**/b"],
        ["a/**/b"],
        ["a**b"],
        ["foo**/b"],
        ["foo/**b"],
        ["x*/**"],
        ["a/*"],
        ["*/a"],
        ["**"],
        ["*", "!*/", "!a.b"],
        ["[ab]"],
        ["[!ab]"],
        ["[^ab]"],
        ["[a-c]b"],
        ["[]]"],
        ["[]-a]"],
        ["[a-]b"],
        ["[a"],
        ["[[:alpha:]]"],
        ["[[:digit:]-]"],
        ["[[:nothing:]]"],
        ["[[:alpha]"],
        ["[\\]]"],
        ["[\\"],
        ["[z-a]"],
        ["\\#a"],
        ["\\!a"],
        ["\\*"],
        ["a\\"],
        ["\\\\"],
        ["a "],
        ["a\\ "],
        ["a  ", "b\\  "],
        ["#a"],
        ["", "/", "!", "//"],
        ["a//"],
        ["a/b/"],
        ["!a", "a"],
        ["?"],
        ["???"],
        ["a?b"],
        ["a/?"],
    ],
)
def test_a_file_is_ignored_exactly_where_git_ignores_it(lines):
    assert ignored_by_us(lines, PATHS) == ignored_by_git(lines, PATHS)


LINES = st.lists(
    st.text(st.sampled_from("ab/*?[]!^-\\ :.#"), max_size=8).filter(lambda line: "\n" not in line), max_size=4
)


@settings(max_examples=250)
@given(LINES)
@example(["a*b**/c"])
@example(["[[:alpha:]-b]", "!a/[!b]"])
def test_any_lines_mean_to_us_what_they_mean_to_git(lines):
    assert ignored_by_us(lines, PATHS) == ignored_by_git(lines, PATHS)


@given(st.text(max_size=60))
def test_any_text_is_a_line(line):
    read_line(line)


@pytest.mark.parametrize("line", ["*a" * 40 + "*b", "**/" * 40 + "*b", "[a-z]*" * 40 + "b", "a**" * 40 + "/b"])
def test_a_hostile_line_costs_a_step_for_each_character(line):
    rules = IgnoreRules([line])
    path = b"/".join([b"a" * 200] * 5)

    assert not rules.covers(path)
    assert rules._of_files._patterns.steps <= len(path)


def test_many_lines_cost_no_more_than_one():
    rules = IgnoreRules([f"*.{number:05}" for number in range(10_000)])

    assert rules.is_ignored(b"x.09999", is_folder=False)
    assert not rules.is_ignored(b"x.10000", is_folder=False)
    assert rules._of_files._patterns.steps <= 14


def test_a_file_ends_in_lines_of_both_systems_and_may_begin_with_a_mark(tmp_path):
    (tmp_path / ".nearlineignore").write_bytes(b"\xef\xbb\xbf*.a\r\n*.b\n")
    rules = read_rules(os.fsencode(tmp_path))

    assert [rules.covers(name) for name in (b"x.a", b"x.b", b"x.c")] == [True, True, False]


def test_an_endless_file_is_refused(tmp_path):
    (tmp_path / ".nearlineignore").write_bytes(b"#" * (2**20 + 1))

    with pytest.raises(InvalidRequest, match=r"'\.nearlineignore' is larger than 1 MiB"):
        read_rules(os.fsencode(tmp_path))
