"""Brings the tables of the database up to date: an empty database gets them whole, any other by its migrations."""

from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder


def bring_up_to_date() -> None:
    """Create the tables, or change them as the migrations say that were not applied yet. Can be repeated without harm.

    Raises DatabaseError when the database cannot be used.
    """
    if not MigrationRecorder(connection).has_table():
        _create()
    call_command("migrate", verbosity=0, interactive=False)


def _create() -> None:
    """Create every table as the models say, in one transaction, and record all migrations as applied.

    To pass all of them through an empty database gives the same tables (a test compares them) and takes ten times as
    long; Rails loads its schema for the same reason.
    """
    loader = MigrationLoader(connection)
    with connection.schema_editor() as editor:
        for model in apps.get_models():
            if model._meta.can_migrate(connection):
                editor.create_model(model)
        recorder = MigrationRecorder(connection)
        recorder.ensure_schema()
        recorder.migration_qs.bulk_create(
            recorder.Migration(app=app, name=name) for app, name in loader.disk_migrations
        )
