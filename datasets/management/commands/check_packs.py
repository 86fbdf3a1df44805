"""`manage.py check_packs PROJECT/DATASET`: reads every pack of a dataset from its store, and says which are damaged."""

from argparse import ArgumentParser

from django.core.management.base import CommandError

from accounts.permissions import Actor
from core.commands import PlatformCommand
from core.units import count_of
from datasets.engine.names import parse_reference
from datasets.selectors import datasets
from datasets.services import packs


class Command(PlatformCommand):
    """Compare the packs of a dataset with their names."""

    help = "Read every pack of a dataset from its store and say which are damaged. Takes as long as a download of all."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the dataset."""
        parser.add_argument("dataset", metavar="PROJECT/DATASET")

    def handle(self, *_args: object, dataset: str, **_options: object) -> None:
        """Run it. Ends with an error when something is damaged."""
        named = parse_reference(dataset)
        record = datasets.get_dataset(actor=Actor.system("check"), project=named.project, name=named.dataset)
        damaged = packs.check_all_packs(record)
        for sha256 in damaged:
            self.stdout.write(sha256)
        if damaged:
            raise CommandError(
                f"{count_of(len(damaged), 'pack')} damaged. `nearline data damage {dataset}` names the files."
            )
        self.stdout.write("No pack is damaged.")
