"""`manage.py give_up_host`: what ends with a host that is gone for good, and with `--yes` the end of it."""

from argparse import ArgumentParser

from accounts.permissions import Actor
from compute.services import lost_places
from compute.services.lost_places import HostLoss
from core.commands import PlatformCommand
from core.units import count_of, format_bytes


class Command(PlatformCommand):
    """Give up a host that does not come back, so that nothing waits for it."""

    help = "Say what is lost with a host that is gone for good; with --yes, end its jobs, resources and cache sites."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the host and the consent."""
        parser.add_argument("host", help="The name or id of the host, as the compute page shows it.")
        parser.add_argument("--yes", action="store_true", help="Do it. Without it, only say what is lost.")

    def handle(self, *_args: object, host: str = "", yes: bool = False, **_options: object) -> None:
        """Run it."""
        actor = Actor.system("manage.py give_up_host")
        loss = (lost_places.give_up_host if yes else lost_places.describe_host_loss)(actor=actor, host=host)
        self._show(loss)
        if yes:
            self.stdout.write(f"The host {loss.host.name} is given up. Empty its home folder before it starts again.")
        else:
            self.stdout.write("Nothing was changed. Add --yes to give the host up; that cannot be undone.")

    def _show(self, loss: HostLoss) -> None:
        rows = [
            ("resources", ", ".join(loss.resources) or "none", "are detached"),
            ("jobs", loss.jobs.started, "that started are lost"),
            ("jobs", loss.jobs.pending, "that wait there fail"),
            ("logs", loss.jobs.logs, "keep only what the store has"),
            ("outputs", loss.jobs.outputs, "that are not stored are lost"),
        ]
        for what, which, end in rows:
            self.stdout.write(f"{what:<12} {which} {end}")
        for site in loss.sites:
            copies, size = count_of(site.copies, "cached commit"), format_bytes(site.size_bytes)
            self.stdout.write(f"{'cache site':<12} {site.name} is removed, with {copies} ({size})")
