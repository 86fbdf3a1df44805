"""`manage.py collect_packs`: what garbage collection would do, and with `--now` a run of all that is due."""

from argparse import ArgumentParser

from core.commands import PlatformCommand
from core.units import count_of, format_bytes
from datasets.selectors import garbage
from datasets.selectors.garbage import Amount
from datasets.workers import collection


class Command(PlatformCommand):
    """Show, or collect, packs that nothing refers to."""

    help = "Say which packs no commit needs and when they leave the store. The platform removes them by itself."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the one switch."""
        parser.add_argument("--now", action="store_true", help="Condemn and delete at once what is due, then report.")

    def handle(self, *_args: object, now: bool = False, **_options: object) -> None:
        """Run it."""
        while now and (deleted := collection.collect()).packs:
            self.stdout.write(f"deleted       {_show(deleted)}")
        report = garbage.report_garbage()
        self.stdout.write(f"in use        {_show(report.in_use)}")
        self.stdout.write(f"unreferenced  {_show(report.unreferenced)}, condemned at the next collection")
        when = f", the first {report.next_due_at:%Y-%m-%d %H:%M} UTC" if report.next_due_at else ""
        self.stdout.write(f"condemned     {_show(report.waiting)}, deleted when their time has come{when}")
        self.stdout.write(f"due           {_show(report.due)}, deleted at the next collection")


def _show(amount: Amount) -> str:
    return f"{count_of(amount.packs, 'pack')} ({format_bytes(amount.size_bytes)})"
