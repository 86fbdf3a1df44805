"""Commands of `manage.py` tell what is anticipated in words."""

import pytest
from django.core.management import BaseCommand, CommandError, call_command, get_commands, load_command_class
from django.db import OperationalError

from core import outages
from core.commands import PlatformCommand

OURS = {name: app for name, app in get_commands().items() if app in {"config", "datasets", "compute", "flows"}}


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_command_of_ours_is_one_of_the_platform(name):
    assert isinstance(load_command_class(OURS[name], name), PlatformCommand)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("check_packs", "nope"), "'nope' does not name a dataset."),
        (("give_up_host", ""), "No host has reported."),
        (("give_up_host", "nope"), "There is no single host called 'nope'. No host has reported."),
    ],
)
def test_a_name_that_is_none_is_told_as_that(words, sentence):
    with pytest.raises(CommandError) as ended:
        call_command(*words)

    assert str(ended.value).startswith(sentence)


@pytest.mark.django_db
def test_an_error_of_the_platform_ends_a_command_with_its_message_and_hint():
    with pytest.raises(CommandError) as ended:
        call_command("check_packs", "team/nothing")

    assert str(ended.value) == (
        "There is no dataset team/nothing, or you are not a member of its project. Check the name, and that you are a member of its project."
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("state", "words", "sentence"),
    [
        (None, "connection failed: Connection refused\n\tIs it up?", "connection failed: Connection refused. Check"),
        ("42P01", 'relation "datasets_store" does not exist', "Migrations are pending. Run `python manage.py setup`"),
    ],
)
def test_a_database_that_is_away_or_not_migrated_ends_a_command_in_a_sentence(monkeypatch, state, words, sentence):
    class Refusal(Exception):
        sqlstate = state

    def fail(*_args, **_options):
        raise OperationalError(words) from Refusal()

    monkeypatch.setattr(BaseCommand, "execute", fail)
    monkeypatch.setattr(outages, "_has_pending_now", lambda: True)

    with pytest.raises(CommandError) as ended:
        PlatformCommand().execute()

    assert sentence in str(ended.value)
    assert "\n" not in str(ended.value)
