"""The lines of a log that say why its job failed."""

from compute.engine.log_excerpt import Excerpt, find_excerpt

TRACEBACK = """\
epoch 1
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    fit(x)
ValueError: could not convert string to float: 'x'
"""


def test_an_empty_log_says_nothing():
    assert find_excerpt("") == Excerpt("", ())
    assert find_excerpt("\n \n") == Excerpt("", ())


def test_without_a_traceback_the_last_line_says_most():
    assert find_excerpt("one\n\nsh: 1: trian: not found\n") == Excerpt(
        "sh: 1: trian: not found", ("one", "sh: 1: trian: not found")
    )


def test_of_a_traceback_its_exception_says_most_whatever_follows():
    excerpt = find_excerpt(f"{TRACEBACK}cleaning up\n")

    assert excerpt.headline == "ValueError: could not convert string to float: 'x'"
    assert excerpt.lines == tuple(TRACEBACK.splitlines())


def test_of_several_tracebacks_the_last_one_counts_also_behind_a_prefix_of_a_launcher():
    text = TRACEBACK + "\n".join(
        f"[rank0]: {line}" for line in TRACEBACK.replace("ValueError", "KeyError").splitlines()
    )

    assert find_excerpt(text).headline == "[rank0]: KeyError: could not convert string to float: 'x'"


def test_lines_for_the_platform_colours_and_earlier_states_of_a_progress_bar_are_left_out():
    text = '\x1b[31mbad\x1b[0m\n10 %\r90 %\n::nearline {"kind":"metric"}\ncnvrg_tag_kind: svm\n'

    assert find_excerpt(text).lines == ("bad", "90 %")


def test_only_the_last_lines_are_kept_and_long_ones_are_cut():
    excerpt = find_excerpt("".join(f"{number}\n" for number in range(99)) + "x" * 999)

    assert excerpt.lines == (*map(str, range(88, 99)), "x" * 299 + "…")
