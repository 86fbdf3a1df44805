"""`manage.py fsck`: whether the stores hold what datasets need; with `--rebuild`, the database from the stores."""

from argparse import ArgumentParser

from django.core.management.base import CommandError

from core.commands import PlatformCommand
from core.units import count_of, format_bytes
from datasets.adapters.opening import open_store
from datasets.engine.layout import dataset_prefix
from datasets.models import Store
from datasets.workers import rebuilds, store_checks
from datasets.workers.rebuilds import Rebuilt
from datasets.workers.store_checks import Damage, DatasetReport, Level
from nearline.content.paths import show_path

_SHOWN = 5


class Command(PlatformCommand):
    """Check stores, or rebuild the database from them."""

    help = (
        "Read the registered stores without the database and say what is missing or damaged, with the datasets, "
        "commits and files that need it. Ends with an error when something is. Nothing in a store is changed."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare what is to be done."""
        levels = [level.value for level in Level]
        parser.add_argument(
            "--level",
            choices=levels,
            default=Level.MANIFESTS.value,
            help="objects: records, commits and roots, and that ranges are there; manifests (default): also the hashes "
            "of ranges, and that packs are there; packs: also every byte of the packs.",
        )
        parser.add_argument("--store", metavar="NAME", help="Only this store.")
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--rebuild",
            action="store_true",
            help="Create in the database the projects, datasets, branches, tags and commits that a store holds and the "
            "database does not. Can be repeated.",
        )
        what.add_argument(
            "--release-trees",
            action="store_true",
            help="Let outputs and code of jobs leave that a rebuild brought back, unless a job holds them.",
        )

    def handle(
        self,
        *_args: object,
        level: str,
        store: str | None = None,
        rebuild: bool = False,
        release_trees: bool = False,
        **_options: object,
    ) -> None:
        """Run it."""
        if release_trees:
            self.stdout.write(f"{count_of(rebuilds.release_trees(), 'stored tree')} released for the next collection.")
            return
        stores = list(Store.objects.filter(**({"name": store} if store else {})).order_by("pk"))
        if not stores:
            raise CommandError(
                f"There is no store called '{store}'." if store else "No store is registered: run setup."
            )
        if rebuild:
            failed = sum(self._tell_rebuilt(result) for row in stores for result in rebuilds.rebuild_store(row))
            if failed:
                raise CommandError(f"{count_of(failed, 'dataset')} not rebuilt.")
            return
        damages = sum(
            self._tell(report) for row in stores for report in store_checks.check_store(open_store(row), Level(level))
        )
        if damages:
            raise CommandError(f"{count_of(damages, 'object')} missing or damaged.")
        self.stdout.write("Nothing is missing or damaged.")

    def _tell(self, report: DatasetReport) -> int:
        """Show what was found of a dataset and return how much is wrong."""
        size = f", {count_of(report.packs, 'pack')} ({format_bytes(report.pack_bytes)})" if report.packs else ""
        trees, ranges = count_of(report.trees, "tree"), count_of(report.ranges, "range")
        self.stdout.write(f"{report.name}: {trees}, {ranges}{size}")
        for damage in report.damages:
            self._tell_damage(damage)
        for advice in _advise(report):
            self.stdout.write(f"  To mend this: {advice}")
        return len(report.damages)

    def _tell_damage(self, damage: Damage) -> None:
        self.stdout.write(f"  {damage.key} {damage.why}")
        for label in damage.trees[:_SHOWN]:
            self.stdout.write(f"    {label}")
        if damage.trees[_SHOWN:]:
            self.stdout.write(f"    and {count_of(len(damage.trees) - _SHOWN, 'more tree')}")
        for path in damage.files[:_SHOWN]:
            self.stdout.write(f"      {show_path(path)}")
        if damage.file_count > len(damage.files[:_SHOWN]):
            self.stdout.write(f"      {damage.file_count:,} files in all")

    def _tell_rebuilt(self, result: Rebuilt) -> bool:
        """Show what came of a dataset and return whether it failed."""
        what = count_of(result.trees, "stored tree") if result.trees else count_of(result.commits, "commit")
        state = result.error or (what if result.is_new else "left as it is")
        self.stdout.write(f"{result.name}: {state}")
        for note in result.notes:
            self.stdout.write(f"  {note}")
        return bool(result.error)


def _advise(report: DatasetReport) -> list[str]:
    """Say what to do about the damage to a dataset, the first that helps first."""
    kinds = {damage.key.partition("/")[0] for damage in report.damages}
    advice = []
    if "packs" in kinds and not report.is_internal:
        advice.append(
            f"run `python manage.py check_packs {report.name}`, so that packs are asked for again, then "
            "`nearline data sync` where good copies of the files are, or `nearline data put`."
        )
    if "records" in kinds:
        advice.append("change something of the dataset, such as a tag: a new record is written within two minutes.")
    if kinds - {"records"}:
        advice.append(
            f"copy the objects back from a backup of the store, where they lie below {dataset_prefix(report.id)}/."
        )
    return advice
