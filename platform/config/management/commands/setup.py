"""`manage.py setup`: migrate, and create what every installation has. Before the full installation starts."""

from django.core.management.base import CommandParser

from config import first_start
from core.commands import PlatformCommand


class Command(PlatformCommand):
    """Prepare the database."""

    help = "Migrate the database and create the first admin, store, cache site and compute resources."

    def add_arguments(self, parser: CommandParser) -> None:
        """Offer to give up the old keys."""
        parser.add_argument(
            "--new-keys",
            action="store_true",
            help="Use this database with the keys of this process from now on. What the old ones encrypted is lost.",
        )

    def handle(self, *_args: object, **options: bool) -> None:
        """Run it."""
        first_start.prepare(has_new_keys=options["new_keys"])
        self.stdout.write("The database is ready.")
