"""A platform with a state of its own that can be killed: started once, it forks a worker for every deed.

Reads lines `seconds deed [argument]` and answers each with the worker's process id and later, on a line of its own,
what the deed returned, as JSON (null when the worker was killed). `seconds` is the present, since leases must expire.
"""

# ruff: noqa: E402, T201 (Django wants to be set up first; the answers are lines on stdout)

import json
import os
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "platform"), str(ROOT / "client" / "src")]
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

import django

django.setup()

import threading

from django.conf import settings
from django.core.management import call_command
from django.db import connection

from accounts.permissions import Actor
from accounts.services import projects
from core import clock
from datasets.models import CachedCommit, CachedCommitEvent, CacheSite, Commit
from datasets.selectors.datasets import resolve
from datasets.services import cache_sites, caches
from datasets.workers import cache_hydration, checkouts, collection, evictions
from tests.factories.datasets import commit_files, make_dataset, make_store

SYSTEM = Actor.system("drill")
START = datetime(2026, 11, 21, tzinfo=UTC)
FIRST = {f"c{n % 7}/{n:04}.png": bytes([n % 251]) * (500 + n) for n in range(500)} | {"big.bin": b"big!" * 6_000_000}
SECOND = {name: content for name, content in FIRST.items() if not name.startswith("c3/")} | {
    f"c3/{n:04}.new": bytes([n]) * 3_000 for n in range(120)
}


def prepare(_):
    """Make everything up to two commits and a site."""
    call_command("migrate", run_syncdb=True, verbosity=0)
    make_store(settings.NEARLINE.home / "store")
    dataset = make_dataset(SYSTEM, projects.create_project(actor=SYSTEM, name="demo"), "data")
    cache_sites.create_site(actor=SYSTEM, name="local", root=settings.NEARLINE.home / "cache", capacity_bytes=10**9)
    return [commit_files(SYSTEM, dataset, files).id for files in (FIRST, SECOND)]


def request(commit_id):
    """Ask for a commit."""
    commit = resolve(SYSTEM, f"demo/data@{commit_id}").commit
    return caches.request_cache(actor=SYSTEM, commit=commit, site=CacheSite.objects.get()).pk


def request_64_times(commit_id):
    """Ask for a commit from 64 threads at once, then let 8 workers loose on it."""
    commit, site = resolve(SYSTEM, f"demo/data@{commit_id}").commit, CacheSite.objects.get()
    barrier, ids, errors = threading.Barrier(64), [], []

    def ask(number):
        barrier.wait()
        try:
            ids.append(
                caches.request_cache(actor=SYSTEM, commit=commit, site=site, holder=f"job-{number}", why="read").pk
            )
        except Exception as error:  # noqa: BLE001 (told to the test)
            errors.append(repr(error))
        finally:
            connection.close()

    def work(_):
        try:
            cache_hydration.hydrate_cached_commit(cached_commit_id=ids[0])
        finally:
            connection.close()

    for target, count in ((ask, 64), (work, 8)):
        threads = [threading.Thread(target=target, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return {
        "ids": sorted(set(ids)),
        "asked": len(ids),
        "errors": errors,
        "holds": CachedCommit.objects.get().holds.count(),
        "hydrations": CachedCommitEvent.objects.filter(kind="state", state="hydrating").count(),
    }


def release(_):
    """End all holds."""
    return [caches.release_holds(actor=Actor.system("test"), holder=f"job-{number}") for number in range(64)]


def hydrate(cached_commit_id):
    """Work as a worker does that was rung for."""
    cache_hydration.hydrate_cached_commit(cached_commit_id=cached_commit_id)
    return show(cached_commit_id)


def uncache(cached_commit_id):
    """Clear a copy."""
    return caches.uncache(actor=SYSTEM, cached_commit_id=cached_commit_id).state


def evict(cached_commit_id):
    """Remove as a worker does that was rung for."""
    evictions.remove_copy(cached_commit_id=cached_commit_id)
    return show(cached_commit_id)


def tree_of(number):
    """Return the files of a commit of `commit`: some of all such commits, some of this one alone."""
    return {f"common/{n}": bytes([n]) * 5_000 for n in range(40)} | {
        f"own/{n}": f"{number} {n} ".encode() * 300 for n in range(40)
    }


def commit(number):
    """Commit a tree to a branch of its own number's; the same again is the same commit."""
    dataset = Commit.objects.order_by("pk").first().dataset
    return commit_files(SYSTEM, dataset, tree_of(number), key=f"commit-{number}").id


def collect(_):
    """Give up what no commit needs, as the tasks do."""
    collection.expire_uploads()
    collection.collect()
    return collection.collect() and None


def read_all(_):
    """Read every commit from the store; return the trees that are not whole, and how many there are."""
    faults, rows = [], list(Commit.objects.order_by("pk"))
    for row in rows:
        target = settings.NEARLINE.home / "read" / row.pk
        try:
            checkouts.write_tree(row.pk, target)
        except Exception as error:  # noqa: BLE001 (told to the test)
            faults.append([row.pk, repr(error)])
        shutil.rmtree(target, ignore_errors=True)
    return {"commits": len(rows), "faults": faults}


def show(cached_commit_id):
    """Return what the row says."""
    row = CachedCommit.objects.select_related("site").get(pk=cached_commit_id)
    return {
        "state": row.state,
        "error": row.error,
        "folder": f"{row.site.root}/{row.location}",
        "moved": row.bytes_moved,
        "shared": row.bytes_shared,
        "taken_over": row.events.filter(kind="taken_over").count(),
    }


def measure(_):
    """Return what the site says of itself and what lies there."""
    site = CacheSite.objects.get()
    files = {}
    for path in Path(site.root).rglob("*"):
        found = path.lstat()
        if path.is_file() and not path.is_symlink() and ".ready" not in path.parts and not path.name.startswith("."):
            files[found.st_ino] = found.st_size
    rows = CachedCommit.objects.exclude(state="gone")
    return {
        "on_disk": sum(files.values()),
        "charged": sum(row.reserved_bytes for row in rows),
        "commits": Commit.objects.count(),
    }


DEEDS = {
    deed.__name__: deed
    for deed in (
        *(prepare, request, request_64_times, release, hydrate, uncache, evict, show, measure),
        *(commit, collect, read_all),
    )
}


def main():
    """Fork a worker for each line."""
    for line in sys.stdin:
        seconds, deed, *argument = line.split()
        connection.close()
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(out)
            try:
                with clock.frozen_at(START + timedelta(seconds=float(seconds))):
                    os.write(into, json.dumps(DEEDS[deed](argument[0] if argument else None)).encode())
                os._exit(0)
            except BaseException as error:  # noqa: BLE001 (told to the test)
                os.write(into, json.dumps({"raised": repr(error)}).encode())
                os._exit(1)
        os.close(into)
        print(child, flush=True)
        with os.fdopen(out) as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)
        print(answer or "null", flush=True)


if __name__ == "__main__":
    main()
