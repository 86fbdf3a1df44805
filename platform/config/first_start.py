"""What exists from the first start on: an admin with a token, a store, a cache site, two compute resources."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module

import structlog
from django.conf import settings
from django.core.management import CommandError
from django.db import DatabaseError

from accounts.models import User
from accounts.permissions import Actor
from accounts.selectors import actor_of
from accounts.services import projects, tokens
from compute.services import resources
from compute.workers import moves as compute_moves
from compute.workers import probes
from config import keys, schema
from core.errors import PlatformError
from datasets.services import cache_sites, stores
from datasets.workers import site_checks

log = structlog.get_logger(__name__)
ADMIN = "admin"


def prepare(*, has_new_keys: bool = False) -> None:
    """Bring the database up to date and create what is missing. Can be repeated without harm.

    Raises SystemExit when the keys are not those of the installation, unless it is to have new ones.
    """
    check_this_cluster()
    settings.NEARLINE.home.mkdir(parents=True, exist_ok=True)
    _migrate()
    if has_new_keys:
        keys.replace_keys()
    keys.record_keys()
    system = Actor.system("first start")
    admin = User.objects.filter(username=ADMIN).first()
    is_empty = admin is None
    if admin is None:
        admin = projects.create_user(actor=system, username=ADMIN, password=None, is_site_admin=True)
    if not settings.NEARLINE.in_pod:
        # A token that is there is of another database when this one is empty.
        _keep_token(admin, is_wanted=is_empty)
    stores.ensure_default_store(actor=system)
    if not settings.NEARLINE.in_pod:
        cache_sites.ensure_default_site(actor=system)
    resources.ensure_first_resources(actor=system, has_machine=not settings.NEARLINE.in_pod)
    take_what_is_here()
    probes.probe_all()


def take_what_is_here() -> None:
    """Take what earlier versions left in the folders of this host. Can be repeated without harm."""
    compute_moves.bind_machine()
    compute_moves.move_simulated_jobs()
    site_checks.bind_sites()
    site_checks.check_folders()


def check_this_cluster() -> None:
    """Raise CommandError where the settings of the cluster whose pod this is cannot be taken. Asks nothing."""
    if settings.NEARLINE.this_cluster:
        try:
            resources.read_this_cluster(actor=Actor.system("first start"), fields=settings.NEARLINE.this_cluster)
        except PlatformError as error:
            raise CommandError(f"NEARLINE_THIS_CLUSTER: {error.message}") from error


def attach_this_cluster() -> None:
    """Attach the cluster whose pod this is, where the settings say so. Can be repeated without harm.

    What it cannot have, such as a cache site while it does not answer, is logged, and tried again at the next start.
    Raises CommandError where the settings cannot be taken.
    """
    check_this_cluster()
    if settings.NEARLINE.this_cluster:
        try:
            resources.keep_this_cluster(actor=Actor.system("first start"), fields=settings.NEARLINE.this_cluster)
        except PlatformError as error:
            log.warning("this_cluster.incomplete", error=error.message, code=error.code)


def _migrate() -> None:
    """Bring the schema up to date in a child, while this process loads the pages: each takes about a second."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as child:
        migrated = child.submit(schema.bring_up_to_date)
        import_module(settings.ROOT_URLCONF)
        try:
            migrated.result()
        except DatabaseError as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise CommandError(
                f"The database cannot be used: {reason}. Check DATABASE_URL; where it is empty, the database is a file "
                f"in {settings.NEARLINE.home}."
            ) from error


def _keep_token(admin: User, *, is_wanted: bool) -> None:
    path = settings.NEARLINE.home / "admin.token"
    if path.exists() and not is_wanted:
        return
    _, secret = tokens.create_token(actor=actor_of(admin), name="admin.token", expires_at=None)
    unfinished = path.with_suffix(".tmp")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secret)
    unfinished.rename(path)
