"""What people add to an experiment after the fact: a note, and tags."""

from datetime import datetime

from django.db import transaction

from accounts import audit
from accounts.permissions import Actor, require
from core import clock
from core.errors import InvalidInput
from experiments import permissions
from experiments.engine.columns import MAX_KEY, Kind
from experiments.errors import NoteChanged
from experiments.models import Experiment
from experiments.services import record_writing

MAX_NOTE = 20_000
MAX_VALUE = 500
MAX_TAGS = 200


@transaction.atomic
def write_note(*, actor: Actor, experiment: Experiment, text: str, seen_at: datetime | None) -> Experiment:
    """Replace an experiment's note; an empty text takes it away. `seen_at` is when the note that was read was written.

    Raises NoteChanged when somebody wrote another since.
    """
    require(actor, permissions.ANNOTATE, experiment.project_id)
    text = text.replace("\0", "").replace("\r\n", "\n").strip()
    if len(text) > MAX_NOTE:
        raise InvalidInput(f"A note has at most {MAX_NOTE:,} characters; this one has {len(text):,}.")
    row = Experiment.objects.select_for_update().get(pk=experiment.pk)
    if row.note_at != seen_at:
        raise NoteChanged(f"{row.note_by} wrote this note meanwhile.", note=row.note, note_by=row.note_by)
    row.note, row.note_by, row.note_at, row.is_recorded = text, actor.name[:200], clock.now(), True
    row.save(update_fields=["note", "note_by", "note_at", "is_recorded"])
    audit.record(actor, "flows.write_note", row, characters=len(text))
    return row


@transaction.atomic
def set_tag(*, actor: Actor, experiment: Experiment, key: str, value: str = "") -> Experiment:
    """Add a tag, or give it another value."""
    require(actor, permissions.ANNOTATE, experiment.project_id)
    key, value = key.replace("\0", "").strip(), value.replace("\0", "").strip()
    if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
        raise InvalidInput(f"A tag has a name of at most {MAX_KEY} characters, and a value of at most {MAX_VALUE}.")
    row = Experiment.objects.select_for_update().get(pk=experiment.pk)
    if key not in row.tags and len(row.tags) >= MAX_TAGS:
        raise InvalidInput(f"An experiment has at most {MAX_TAGS} tags.")
    row.tags, row.is_recorded = {**row.tags, key: value}, True
    row.save(update_fields=["tags", "is_recorded"])
    record_writing.write_facts([(row, Kind.TAG, {key: value})])
    audit.record(actor, "flows.set_tag", row, key=key, value=value)
    return row


@transaction.atomic
def remove_tag(*, actor: Actor, experiment: Experiment, key: str) -> Experiment:
    """Take a tag away; one that is not there is no error."""
    require(actor, permissions.ANNOTATE, experiment.project_id)
    row = Experiment.objects.select_for_update().get(pk=experiment.pk)
    row.tags = {name: value for name, value in row.tags.items() if name != key}
    row.save(update_fields=["tags"])
    record_writing.forget_fact(row, Kind.TAG, key)
    audit.record(actor, "flows.remove_tag", row, key=key)
    return row
