"""Datasets from anywhere, without a linked folder: list, look, add, remove, clone."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm
from nearline.cli.commands.data.caches import wait_until_ready
from nearline.cli.commands.data.folder import AllowCollisions, Parallel, tell_healing, tell_skipped
from nearline.cli.commands.data.queries import with_query
from nearline.cli.commands.data.target import Ref, TreeRef, target_of, tree_of
from nearline.cli.group import accepts, refuses
from nearline.cli.options import Message, Project, Yes
from nearline.cli.output import printable
from nearline.cli.progress import progress_of
from nearline.cli.session import Session, session_of
from nearline.errors import Conflict, InvalidRequest, NearlineError, NotFound
from nearline.resources.references import OutputReference, Reference, TreeReference

if TYPE_CHECKING:
    from nearline.models import CachedCommit
    from nearline.resources.folders import Outcome

AutoCache = Annotated[bool, typer.Option("--auto_cache", help="Cache the new commit; needs --external_disk.")]
Disk = Annotated[str | None, typer.Option("--external_disk", metavar="SITE", help="Cache site for --auto_cache.")]
Commit = Annotated[str | None, typer.Option("--commit", "-c", help="Commit; else the newest.")]
_SHARED = {
    "reflink": "files of your own that share blocks until they change.",
    "hard link": "read-only files of that copy; replace them, or copy them before you edit them.",
    "copy": "files of your own.",
}
QueryName = Annotated[str | None, typer.Option("--query", "-q", help="Only what this saved query selects.")]


def list_datasets(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="Only those with this in their name.")] = None,
    project: Project = None,
) -> None:
    """List the datasets that you may see."""
    session = session_of(context)
    datasets = list(session.client().datasets.list(project=project, text=text))
    rows = [
        (
            item.reference,
            formats.count(item.files, "file"),
            formats.size(item.size_bytes),
            item.newest_commit.short if item.newest_commit else "-",
            formats.ago(item.newest_commit.created_at) if item.newest_commit else "empty",
        )
        for item in datasets
    ]
    empty = "There is no dataset. `nearline data init` makes one of a folder."
    session.out.table(datasets, ("DATASET", "FILES", "SIZE", "NEWEST", "CHANGED"), rows, empty=empty)


@refuses(
    {
        "--expires/-ex=": "Files lie in packs and have no addresses of their own. `nearline data clone` gets them, "
        "or one by one, with a token: GET /api/v1/datasets/PROJECT/NAME/content?ref=COMMIT&path=PATH."
    }
)
def list_files(
    context: typer.Context,
    reference: TreeRef,
    *,
    offset: Annotated[int, typer.Option("--offset", "-o", min=0, help="Skip the first N.")] = 0,
    limit: Annotated[int, typer.Option("--limit", "-l", min=1, help="Show at most so many.")] = 1000,
    commit: Commit = None,
    glob: Annotated[str, typer.Option(help="Only paths that match, like '**/*.png'.")] = "**",
) -> None:
    """List the files of a commit, or of an output.

    `run:RUN/STEP` is what a step of a run left, a try of its grid is 'run:RUN/train C=10', and `job:NAME` is what a job
    left.
    """
    session = session_of(context)
    show_files(session, tree_of(session, reference, ref=commit), offset=offset, limit=limit, glob=glob)


def show_files(session: Session, target: TreeReference, *, offset: int, limit: int, glob: str = "**") -> None:
    """Show files of a commit, or of an output."""
    files = list(session.client().datasets.list_files(target, glob=glob, limit=offset + limit))[offset:]
    rows = [(item.path, formats.size(item.size_bytes), (item.content_id or "")[:12]) for item in files]
    session.out.table(files, ("FILE", "SIZE", "CONTENT"), rows, empty="There is no such file.")


@accepts("--override", "--threads/-t=", "--chunk/-cs=", "--verbose/-v")
def put(
    context: typer.Context,
    reference: Ref,
    files: Annotated[list[Path], typer.Argument(metavar="FILES", help="Files and folders.")],
    *,
    directory: Annotated[str, typer.Option("--dir", "-d", help="Folder in the dataset.")] = "",
    message: Message = "",
    parallel: Parallel = None,
    external_disk: Disk = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="The commit holds these files and no others.")] = False,
    allow_collisions: AllowCollisions = False,
    auto_cache: AutoCache = False,
) -> None:
    """Add files to a dataset, as one commit, without a linked folder.

    Folders are taken whole: with what ignore files list, and with folders in them that are linked to other datasets. A
    symbolic link stays a link, as in a synced folder.
    """
    session = session_of(context)
    _check_auto_cache(auto_cache=auto_cache, site=external_disk)
    options = {"directory": directory, "message": message, "only": force, "allow_collisions": allow_collisions}
    target = target_of(session, reference)
    outcome = put_files(session, target, files, parallel=parallel, **options)
    _cache_after(session, target, outcome, external_disk)


def put_files(session: Session, target: Reference, files: list[Path], **options: Any) -> "Outcome":
    """Commit files from here to a dataset, and say what became of it. Raises NotFound for one that is missing."""
    missing = [str(path) for path in files if not path.exists() and not path.is_symlink()]
    if missing:
        raise NotFound(f"There is no file '{printable(missing[0])}' here.")
    for path in files:
        if path.is_symlink():
            session.out.warn(f"'{printable(str(path))}' is a link; what it leads to is not put with it.")
    with progress_of(session.out) as progress:
        outcome = session.client().folders.put(target, files, progress=progress, **options)
    tell_put(session, target, outcome)
    return outcome


@accepts("--chunk/-cs=", "--verbose/-v")
def remove(
    context: typer.Context,
    reference: Ref,
    patterns: Annotated[list[str], typer.Argument(metavar="PATTERN", help="Paths, or patterns like 'train/*'.")],
    message: Message = "",
    external_disk: Disk = None,
    *,
    regex: Annotated[
        bool, typer.Option("--regex", help="Patterns are regular expressions for whole paths, as in cnvrg.")
    ] = False,
    auto_cache: AutoCache = False,
    yes: Yes = False,
) -> None:
    """Remove files from the newest state of a dataset, as one commit. Older commits keep them.

    Asks first on a terminal; where nobody can answer, as in a script, it removes without asking.
    """
    session = session_of(context)
    _check_auto_cache(auto_cache=auto_cache, site=external_disk)
    target = target_of(session, reference)
    outcome = remove_files(session, target, patterns, regex=regex or session.is_cnvrg, message=message, yes=yes)
    _cache_after(session, target, outcome, external_disk)


def remove_files(
    session: Session, target: Reference, patterns: list[str], *, regex: bool, message: str, yes: bool
) -> "Outcome":
    """Commit the removal of what patterns mean, and say what became of it. Raises NotFound when that is nothing."""
    folders = session.client().folders
    paths = folders.find_by_expressions(target, patterns) if regex else folders.find(target, patterns)
    if not paths:
        raise NotFound(
            f"No file of {target} matches '{printable(' '.join(patterns))}'.",
            hint="A regular expression must match the whole path: '.*/bad_.*'."
            if regex
            else "Patterns are like 'train/*.png'; with --regex they are regular expressions.",
        )
    confirm(f"Remove {formats.count(len(paths), 'file')} from {target}?", yes=yes, can_be_undone=True)
    with progress_of(session.out) as progress:
        outcome = folders.remove(target, paths, message=message, progress=progress)
    tell_put(session, target, outcome)
    return outcome


@accepts("--remote", "--relative/-rel", "--soft/-s", "--threads=", "--verbose/-v")
def clone(
    context: typer.Context,
    reference: TreeRef,
    destination: Annotated[
        Path | None, typer.Argument(metavar="DEST", help="Folder; else the name of the dataset or step.")
    ] = None,
    *,
    commit: Commit = None,
    parallel: Parallel = None,
    query: QueryName = None,
    tree: Annotated[bool, typer.Option("--tree", "-t", help="Make the folders only.")] = False,
    read: Annotated[bool, typer.Option("--read", "-r", help="Files only: leave the folder unlinked.")] = False,
    flatten: Annotated[bool, typer.Option("--flatten", "-f", hidden=True)] = False,
    cache_link: Annotated[
        bool, typer.Option("--cache_link", help="Point to the cached copy where this machine has one.")
    ] = False,
    link: Annotated[
        bool,
        typer.Option("--link", help="Share the files of a cached copy on this machine where there is one."),
    ] = False,
) -> None:
    """Get a dataset, or an output, into a new folder. Run it again to go on after a break.

    What a query selects, and what a step or a job left, comes as files only: the folder stays unlinked.
    """
    session = session_of(context)
    if flatten:
        raise InvalidRequest("Flat clones do not exist here.", hint="See `nearline data files --glob`.")
    target = tree_of(session, reference, ref=commit)
    into = destination or Path(target.name)
    if isinstance(target, OutputReference):
        if query or link or cache_link:
            raise InvalidRequest(
                f"'{target}' is an output: it has no queries and no cached copies.",
                hint="Leave out --query, --link and --cache_link.",
            )
        if not tree:
            clone_files(session, target, into, is_linked=False, parallel=parallel)
            return
    elif query:
        target = with_query(target, query)
    if tree or isinstance(target, OutputReference):
        _make_folders(session, target, into)
    elif not (cache_link and link_to_cache(session, target, into)):
        copy = find_copy(session, target) if link else None
        clone_files(session, target, into, is_linked=not read, parallel=parallel, cached_copy=copy)


def clone_query(
    context: typer.Context,
    reference: Ref,
    destination: Annotated[Path | None, typer.Argument(metavar="DEST", help="Folder; else the dataset's name.")] = None,
    *,
    query: QueryName = None,
    commit: Commit = None,
    parallel: Parallel = None,
) -> None:
    """Get what a query selects into a new folder."""
    if not query:
        raise InvalidRequest("It needs a query.", hint="Add --query NAME; `nearline data query list` lists them.")
    session = session_of(context)
    target = with_query(target_of(session, reference, ref=commit), query)
    clone_files(session, target, destination or Path(target.name), is_linked=False, parallel=parallel)


def clone_files(
    session: Session,
    target: TreeReference,
    into: Path,
    *,
    is_linked: bool,
    parallel: int | None,
    cached_copy: "CachedCommit | None" = None,
) -> None:
    """Bring a commit, or an output, into a new folder, and say what was brought."""
    was_there = into.is_dir()
    with progress_of(session.out) as progress:
        outcome = session.client().folders.clone(
            target,
            into,
            link=is_linked,
            cached_copy=Path(cached_copy.path) if cached_copy and cached_copy.path else None,
            parallel=parallel,
            progress=progress,
        )
    tell_skipped(session, outcome.skipped)
    if session.out.is_json or session.out.is_quiet:
        session.out.record(outcome, [("Folder", str(into))])
        return
    if was_there and outcome.is_up_to_date:
        session.out.done(f"{printable(into)} has all of {target} already.")
        return
    session.out.done(
        f"Cloned {target} to {printable(into)}: {formats.count(outcome.files_downloaded, 'file')}, "
        f"{formats.size(outcome.bytes_downloaded)}"
    )
    for how, count in outcome.shared.items():
        session.out.note(f"  {formats.count(count, 'file')} by {how} from the cached copy: {_SHARED[how]}")


def link_to_cache(session: Session, target: Reference, into: Path) -> bool:
    """Point `into` to a cached copy that this machine can read; False where there is none."""
    if into.exists() or into.is_symlink():
        raise Conflict(f"'{into}' is there already.", hint="Choose another folder.")
    cached = find_copy(session, target)
    if cached is None or not cached.path:
        return False
    into.symlink_to(cached.path)
    fields = [("Folder", str(into)), ("Copy", cached.path), ("Site", cached.site)]
    session.out.record({"folder": str(into), "cached_path": cached.path, "site": cached.site}, fields)
    session.out.note("It is read-only and shared with others.")
    return True


def find_copy(session: Session, target: Reference) -> "CachedCommit | None":
    """Return a cached copy of a commit that this machine can read; None where there is none."""
    commit = session.client().datasets.get_commit(target)
    for cached in session.client().caches.list():
        is_it = cached.commit == commit.id and cached.dataset == target.dataset and cached.state == "ready"
        if is_it and cached.path and Path(cached.path).is_dir():
            return cached
    session.out.note("No cached copy can be read from this machine; downloading instead.")
    return None


def _make_folders(session: Session, target: TreeReference, into: Path) -> None:
    if os.path.lexists(into) and not into.is_dir():
        raise Conflict(f"'{into}' is there already.", hint="Choose another folder.")
    folders = sorted({str(Path(item.path).parent) for item in session.client().datasets.list_files(target)})
    for folder in folders:
        (into / folder).mkdir(parents=True, exist_ok=True)
    session.out.record({"folder": str(into), "folders": len(folders)}, [("Folder", str(into))])


def _check_auto_cache(*, auto_cache: bool, site: str | None) -> None:
    if auto_cache and not site:
        raise InvalidRequest("For auto caching external disk is required.", hint="Add --external_disk SITE.")


def _cache_after(session: Session, target: Reference, outcome: "Outcome", site: str | None) -> None:
    if site is None or outcome.commit_id is None:
        return
    try:
        cached = session.client().datasets.cache(Reference(target.project, target.name, outcome.commit_id), site=site)
        wait_until_ready(session, cached)
    except NearlineError as error:
        # The commit is made; what failed is only its copy.
        session.out.warn(f"Couldn't cache commit: {error.message}")
    else:
        session.out.done(f"Cached on {site}.")


def tell_put(session: Session, target: Reference, outcome: "Outcome") -> None:
    """Say what became of a commit of files from here."""
    tell_skipped(session, outcome.skipped)
    tell_healing(session, outcome)
    if outcome.is_up_to_date and not session.out.is_json:
        session.out.done("Dataset is up to date")
        return
    made = outcome.commit
    change = f"+{made.added} -{made.removed} ~{made.changed}" if made else ""
    session.out.record(
        outcome,
        [
            ("Commit", made.short if made else ""),
            ("Dataset", target.dataset),
            ("Change", change),
            ("Sent", formats.size(outcome.bytes_uploaded)),
        ],
    )
