"""The reference says what the code says; `make docs` writes it anew."""

import pytest

from docs import generate


@pytest.mark.parametrize("name", generate.FILES)
def test_a_file_of_the_reference_is_up_to_date(name):
    assert (generate.REFERENCE / name).read_text() == generate.FILES[name](), f"run `make docs` to refresh {name}"


def test_every_setting_says_what_it_is_for():
    rows = [line for line in generate.settings().splitlines() if line.startswith("| `")]

    assert len(rows) > 10
    assert all(row.split("|")[3].strip() for row in rows)
