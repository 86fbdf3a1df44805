"""What selectors keep in memory."""

from datasets.selectors.kept import Kept


def test_what_was_read_last_is_kept_within_bounds():
    kept = Kept(10)
    for number in range(5):
        kept.put(("d", str(number)), number, weight=4)

    assert [kept.get(("d", str(number))) for number in range(5)] == [None, None, None, 3, 4]


def test_one_heavy_value_is_kept_alone():
    kept = Kept(10)
    kept.put(("d", "light"), 1, weight=1)
    kept.put(("d", "heavy"), 2, weight=100)

    assert (kept.get(("d", "light")), kept.get(("d", "heavy"))) == (None, 2)
