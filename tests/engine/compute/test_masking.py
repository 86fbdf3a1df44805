from hypothesis import given
from hypothesis import strategies as st

from compute.engine.masking import MASK, Mask, mask

needles = st.lists(st.text("ab", min_size=1, max_size=6).map(str.encode), max_size=4)


def fed(pieces, needles):
    stream = Mask(needles)
    return b"".join([*map(stream.feed, pieces), stream.finish()])


def test_a_secret_is_replaced():
    assert mask(b"the key is hunter22, yes", [b"hunter22"]) == b"the key is ***, yes"


def test_a_secret_that_arrives_in_two_chunks_is_replaced():
    assert fed([b"key hun", b"ter22\n"], [b"hunter22"]) == b"key ***\n"


def test_what_only_looks_like_the_beginning_of_a_secret_is_printed_once_more_is_known():
    stream = Mask([b"hunter22"])

    assert [stream.feed(b"hunt"), stream.feed(b" done\n"), stream.finish()] == [b"", b"hunt done\n", b""]


def test_an_unfinished_beginning_is_printed_at_the_end():
    stream = Mask([b"hunter22"])

    assert (stream.feed(b"a hunter2"), stream.finish()) == (b"a ", b"hunter2")


def test_two_secrets_that_overlap_leave_nothing_of_either():
    assert mask(b"<hellowly>", [b"hello", b"lowly"]) == b"<***>"


def test_without_secrets_everything_passes_at_once():
    stream = Mask([])

    assert (stream.feed(b"abc"), stream.finish()) == (b"abc", b"")


@given(data=st.text("abc", max_size=40).map(str.encode), needles=needles, cuts=st.lists(st.integers(1, 7), min_size=1))
def test_the_borders_of_chunks_change_nothing(data, needles, cuts):
    pieces, rest, turn = [], data, 0
    while rest:
        size = cuts[turn % len(cuts)]
        pieces, rest, turn = [*pieces, rest[:size]], rest[size:], turn + 1

    printed = fed(pieces, needles)
    assert printed == mask(data, needles)
    assert not any(needle in between for needle in needles for between in printed.split(MASK))
