"""`manage.py give_up_resource`: what ends with a cluster or SSH host that is gone, and with `--yes` the end of it."""

from argparse import ArgumentParser

from accounts.actor import Actor
from compute.services import lost_resources
from compute.services.lost_resources import ResourceLoss
from core.commands import PlatformCommand
from core.units import format_bytes


class Command(PlatformCommand):
    """Give up a resource that does not come back, so that nothing waits for it."""

    help = (
        "Say what is lost with a cluster or SSH host that is gone for good; with --yes, end its jobs and cache sites."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the resource and the consent."""
        parser.add_argument("resource", help="The name of the resource; one that was detached may have left sites.")
        parser.add_argument("--yes", action="store_true", help="Do it. Without it, only say what is lost.")

    def handle(self, *_args: object, resource: str = "", yes: bool = False, **_options: object) -> None:
        """Run it."""
        actor = Actor.system("manage.py give_up_resource")
        loss = (lost_resources.give_up_resource if yes else lost_resources.describe_loss)(actor=actor, name=resource)
        self._show(loss)
        if yes:
            self.stdout.write(f"{resource} is given up. What it still runs goes on unseen.")
        else:
            self.stdout.write(f"Nothing was changed. Add --yes to give {resource} up; that cannot be undone.")

    def _show(self, loss: ResourceLoss) -> None:
        rows = [
            (loss.jobs.started, "that started are lost"),
            (loss.jobs.pending, "that wait there fail"),
            (loss.waiting_elsewhere, "that wait elsewhere to read its cache sites fail"),
        ]
        for count, end in rows:
            self.stdout.write(f"{'jobs':<12} {count} {end}")
        self.stdout.write(f"{'logs':<12} {loss.jobs.logs} keep only what the store has")
        self.stdout.write(f"{'outputs':<12} {loss.jobs.outputs} that are not stored are lost")
        for site in loss.sites:
            copies = f"{site.copies} {'copy' if site.copies == 1 else 'copies'} ({format_bytes(site.size_bytes)})"
            self.stdout.write(f"{'cache site':<12} {site.name} is removed, with {copies}. {site.left}")
            if site.only_bytes:
                self.stdout.write(f"{'datasets':<12} {format_bytes(site.only_bytes)} of them lie only on {site.name}")
