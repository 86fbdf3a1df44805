"""What cannot be prepared at the first start is one sentence."""

import dataclasses

import pytest
from django.core.management import CommandError, call_command

from config import first_start


@pytest.mark.django_db(transaction=True)
def test_a_store_that_cannot_be_used_ends_the_start_with_a_sentence_and_what_to_check(settings, monkeypatch, tmp_path):
    settings.NEARLINE = dataclasses.replace(
        settings.NEARLINE, home=tmp_path, store_url="s3://my bucket/x?endpoint=http://127.0.0.1:1"
    )
    monkeypatch.setattr(first_start, "_migrate", lambda: None)

    with pytest.raises(CommandError) as ended:
        call_command("setup")

    assert str(ended.value) == (
        "'my bucket' cannot be the name of a bucket: letters, digits, '.', '-' and '_'. "
        "Check NEARLINE_STORE_URL and the store's keys."
    )
