"""What `nearline` promises."""

import pytest

import nearline


def test_every_promised_name_is_there():
    assert {name: getattr(nearline, name, None) is not None for name in nearline.__all__} == dict.fromkeys(
        nearline.__all__, True
    )


def test_no_other_name_is():
    with pytest.raises(AttributeError, match="no attribute 'secret'"):
        nearline.secret  # noqa: B018
