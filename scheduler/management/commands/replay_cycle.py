"""`manage.py replay_cycle DUMP`: decides again what a cycle decided, from its dump, and says whether it is the same."""

import json
from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import CommandError

from core.commands import PlatformCommand
from scheduler.engine import dumps
from scheduler.selectors import evictions


class Command(PlatformCommand):
    """Decide again what a cycle that evicted decided."""

    help = "Decide again what a cycle that evicted decided, and say whether it is the same. Nothing is changed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the dump."""
        parser.add_argument("dump", metavar="DUMP", help="Id of the cycle, which receipts of evictions name, or a file")
        parser.add_argument("--save", type=Path, metavar="FILE", help="Write the dump to a file, as JSON")

    def handle(self, *_args: object, dump: str, save: Path | None, **_options: object) -> None:
        """Run it. Ends with an error when something else is decided now."""
        try:
            cycle = json.loads(Path(dump).read_text()) if Path(dump).is_file() else evictions.read_dump(dump)
            replay = dumps.replay(cycle)
        except (ValueError, LookupError) as error:
            raise CommandError(f"{dump} is no dump of a cycle that can be read: {error}") from error
        if save is not None:
            save.write_text(json.dumps(cycle))
        for move in replay.replayed:
            self.stdout.write(json.dumps(move))
        if not replay.is_same:
            for move in replay.recorded:
                self.stderr.write(f"recorded: {json.dumps(move)}")
            raise CommandError("Something else is decided now: the rules have changed since, or there is a fault.")
        self.stdout.write(f"The same {len(replay.recorded)} moves are decided again.")
