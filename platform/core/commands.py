"""What every command of `manage.py` is: one whose anticipated errors are told in words, never by a traceback."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, InterfaceError

from core.errors import PlatformError
from core.outages import MigrationsPending, find_outage


class PlatformCommand(BaseCommand):
    """A command of the platform.

    It does without Django's checks of the code, which the tests pass: they import every page and route of the API, a
    third of what a process costs that serves none.
    """

    requires_system_checks = ()

    def execute(self, *args: object, **options: Any) -> str | None:
        """Run it. Raises CommandError with message and hint where it raises an error of the platform."""
        try:
            return super().execute(*args, **options)
        except PlatformError as error:
            raise CommandError(f"{error.message} {error.hint}".strip()) from error
        except (DatabaseError, InterfaceError) as error:
            outage = find_outage(error)
            if outage is None:
                raise
            if isinstance(outage, MigrationsPending):
                raise CommandError("Migrations are pending. Run `python manage.py setup` first.") from error
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise CommandError(f"The database cannot be used: {reason}. Check DATABASE_URL.") from error
