"""`manage.py setup`: migrate, and create what every installation has. Before the full installation starts."""

from django.core.management.base import BaseCommand

from config import first_start


class Command(BaseCommand):
    """Prepare the database."""

    help = "Migrate the database and create the first admin, store, cache site and compute resources."

    def handle(self, *_args: object, **_options: object) -> None:
        """Run it."""
        first_start.prepare()
        self.stdout.write("The database is ready.")
