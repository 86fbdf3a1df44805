"""All processes of an installation have the same keys; one that has another does not start."""

from dataclasses import replace

import pytest

from config import keys
from core.models import KnownKey

OTHER = "b3RoZXIga2V5LCBhbHNvIDMyIGJ5dGVzLCBhcyBhIGs="


@pytest.fixture(autouse=True)
def _recorded(db):
    keys.record_keys()


@pytest.mark.parametrize(
    ("field", "variable"), [("secret_key", "NEARLINE_SECRET_KEY"), ("secrets_key", "NEARLINE_SECRETS_KEY")]
)
@pytest.mark.parametrize("check", [keys.check_keys, keys.record_keys])
def test_a_process_with_another_key_says_which_and_changes_nothing(settings, field, variable, check):
    before = list(KnownKey.objects.order_by("name").values())
    settings.NEARLINE = replace(settings.NEARLINE, **{field: OTHER})

    with pytest.raises(SystemExit, match=f"^{variable} is not the key with which this database is used"):
        check()

    assert list(KnownKey.objects.order_by("name").values()) == before


def test_a_process_with_the_same_keys_starts():
    keys.check_keys()


def test_a_database_that_knows_no_key_yet_takes_any():
    KnownKey.objects.all().delete()

    keys.check_keys()


def test_new_keys_are_taken_when_that_is_asked_for(settings):
    settings.NEARLINE = replace(settings.NEARLINE, secret_key=OTHER)

    keys.replace_keys()

    keys.check_keys()


def test_the_database_does_not_hold_the_keys_themselves(settings):
    held = "".join(KnownKey.objects.values_list("digest", flat=True))

    assert settings.NEARLINE.secret_key not in held
    assert settings.NEARLINE.secrets_key not in held
