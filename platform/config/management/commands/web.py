"""`manage.py web`: pages and API of the full installation. Run as many as you like, behind your proxy."""

from django.conf import settings
from django.core.management.base import CommandParser

from config import serving
from core.commands import PlatformCommand


class Command(PlatformCommand):
    """Serve pages and API."""

    help = "Serve pages and API of the full installation."

    def add_arguments(self, parser: CommandParser) -> None:
        """Offer to listen where others reach it."""
        parser.add_argument("--listen", default="127.0.0.1", help="address to listen on (%(default)s)")

    def handle(self, *_args: object, **options: str) -> None:
        """Run until SIGTERM or Ctrl-C."""
        serving.allow_many_files()
        serving.serve(serving.listen(options["listen"], settings.NEARLINE.port), lifespan="on")
