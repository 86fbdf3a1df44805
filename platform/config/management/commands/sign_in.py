"""`manage.py sign_in`: a link that signs the first site admin in once. For whoever may run commands of the platform."""

import fcntl
from pathlib import Path

from django.conf import settings
from django.core.management.base import CommandError

from accounts.models import User
from accounts.permissions import Actor
from accounts.services import tokens
from core.commands import PlatformCommand


class Command(PlatformCommand):
    """Print the link."""

    help = "Print a link that signs the first site admin in once within 30 minutes."

    def handle(self, *_args: object, **_options: object) -> None:
        """Run it."""
        self.stdout.write(make_link())


def make_link() -> str:
    """Return an address that signs in the first site admin who may; the last one cannot be disabled.

    Raises CommandError in a database that has none yet.
    """
    admin = User.objects.filter(is_superuser=True, is_active=True).order_by("pk").first()
    if admin is None:
        raise CommandError("There is no site admin. `python manage.py setup` creates the first one.")
    link = tokens.create_sign_in_link(actor=Actor.system("command line"), user=admin)
    return f"{_find_address(settings.NEARLINE.home) or settings.NEARLINE.url}/sign-in/{link}/"


def _find_address(home: Path) -> str:
    """Return where the product that runs on this home folder is reached; empty: none runs as one process."""
    try:
        with (home / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        _, address, *_ = [*(home / "lock").read_text().splitlines(), "", ""]
        return address
    except OSError:
        pass
    return ""
