"""`manage.py move_store NAME`: the bucket of a store has moved, and the settings name its copy."""

from argparse import ArgumentParser

from django.core.management.base import CommandError

from core.commands import PlatformCommand
from core.errors import PlatformError
from core.units import count_of
from datasets.models import Store
from datasets.workers import store_moves


class Command(PlatformCommand):
    """Use a copy of a bucket."""

    help = (
        "Compare the bucket of NEARLINE_STORE_URL with what the database knows of a store, and with --yes use it for "
        "all that the store holds. While no other process of the installation runs."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare which."""
        parser.add_argument("name", metavar="NAME", help="The store, by its address without what follows a '?'.")
        parser.add_argument("--yes", action="store_true", help="Use the copy from now on, if nothing is missing in it.")

    def handle(self, *_args: object, name: str, yes: bool, **_options: object) -> None:
        """Run it."""
        store = Store.objects.filter(name=name).first()
        if store is None:
            names = ", ".join(Store.objects.order_by("pk").values_list("name", flat=True))
            raise CommandError(f"There is no store called '{name}'. There are: {names or 'none'}.")
        try:
            report = store_moves.check_copy(store)
            self.stdout.write(f"Store:     {store.name}\nCopy:      {report.location}")
            self.stdout.write(f"Datasets:  {report.datasets:,}, with {count_of(report.objects, 'object')}")
            for key in report.missing:
                self.stdout.write(f"  {key} is missing, or of another size")
            if report.missing_count:
                missing = count_of(report.missing_count, "object")
                raise CommandError(f"{missing} missing: copy what is. Nothing was changed.")
            if not yes:
                self.stdout.write("Nothing is missing. To use the copy, stop all processes and add --yes.")
                return
            store_moves.move_store(store)
        except PlatformError as error:
            raise CommandError(f"{error.message} {error.hint}".strip()) from error
        self.stdout.write("The copy is used from now on.")
