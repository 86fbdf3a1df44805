"""Times of files that 64 bits do not hold are carried as the nearest one."""

import pytest

from nearline.content.times import carried_ns

IN_1601 = -11_644_473_600 * 10**9
IN_2446 = 15_032_385_535 * 10**9


@pytest.mark.parametrize(("mtime_ns", "carried"), [(5, 5), (-5, -5), (IN_1601, -(1 << 63)), (IN_2446, (1 << 63) - 1)])
def test_a_time_beyond_64_bits_is_the_nearest_one(mtime_ns, carried):
    assert carried_ns(mtime_ns) == carried
