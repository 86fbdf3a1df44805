"""What selectors keep in memory."""

from datasets.selectors.trees import Kept


def test_what_was_read_last_is_kept_within_bounds():
    kept = Kept(10)
    for number in range(5):
        kept.put(("d", str(number)), number, weight=4)

    assert [kept.get(("d", str(number))) for number in range(5)] == [None, None, None, 3, 4]


def test_a_value_that_is_heavier_than_all_may_be_is_not_kept():
    kept = Kept(10)
    kept.put(("d", "light"), 1, weight=1)
    kept.put(("d", "heavy"), 2, weight=11)

    assert (kept.get(("d", "light")), kept.get(("d", "heavy"))) == (1, None)
