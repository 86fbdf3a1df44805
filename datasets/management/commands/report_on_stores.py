"""`manage.py report_on_stores`: whether buckets do what the product asks of them."""

from argparse import ArgumentParser

from django.core.management.base import CommandError

from accounts.permissions import Actor
from core.commands import PlatformCommand
from core.errors import PlatformError
from datasets.models import Store, StoreKind
from datasets.services import stores


class Command(PlatformCommand):
    """Try out the buckets that are registered."""

    help = (
        "Put a few small objects into each bucket that is registered, look at what its server does with them, and "
        "delete them: reading, listing, signed addresses, verified uploads, deletion, rules that delete. Ends with an "
        "error when something that is needed fails."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare which."""
        parser.add_argument("--store", metavar="NAME", help="Only this store.")

    def handle(self, *_args: object, store: str | None = None, **_options: object) -> None:
        """Run it."""
        rows = list(Store.objects.filter(kind=StoreKind.S3, **({"name": store} if store else {})).order_by("pk"))
        if not rows:
            raise CommandError(f"No bucket is called '{store}'." if store else "No bucket is registered.")
        failed = sum(self._tell(row) for row in rows)
        if failed:
            raise CommandError(f"{failed} checks failed.")

    def _tell(self, row: Store) -> int:
        """Show what was found of a bucket and return how many checks failed."""
        self.stdout.write(f"{row.name}:")
        try:
            report = stores.report_on_store(actor=Actor.system("report on stores"), store=row)
        except PlatformError as error:  # the other buckets are tried out
            self.stdout.write(f"  failed   {error.message} {error.hint}")
            return 1
        for finding in report.findings:
            self.stdout.write(f"  {finding.outcome:<8} {finding.name}: {finding.text}")
        return sum(finding.outcome == "failed" for finding in report.findings)
