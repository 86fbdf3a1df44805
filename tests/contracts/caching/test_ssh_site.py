"""Cached commits in a folder of a host that is reached by a real sshd: the contract, and what is special to hosts."""

import itertools
import json
import os
import shutil
import signal
import sys
import threading
import time as real_time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from accounts.permissions import Actor
from compute.adapters.ssh.connection import HostConnection
from compute.adapters.ssh.driver import SshDriver
from compute.engine.job_spec import Mount, RemoteFolder, source_from_json
from core import clock, remote_hosts
from core.remote_hosts import HostNotAttached, RemoteHost
from datasets.adapters.sites import registry
from datasets.engine.cache_states import CacheState
from datasets.errors import InvalidCacheSite
from datasets.models import CachedCommit, CachedCommitEvent, CacheHold, CacheSite
from datasets.services import cache_sites
from datasets.workers import cache_hydration, copies, evictions, scrubs
from tests.contracts.cache_site import FIRST, CacheSiteContract, new_row
from tests.contracts.compute.ssh.sshd import Sshd
from tests.contracts.compute_driver import make_launch
from tests.factories.datasets import commit_files, make_dataset, make_store

SYSTEM = Actor.system("test")
_SETTLE_S = 120


class Place:
    """A host that sites have their folders on. What is opened there finds all processes at their end."""

    def __init__(self, sshd: Sshd, url: str) -> None:
        self.sshd = sshd
        # Without anybody's packages, but for what the platform brings.
        self.connection = HostConnection(sshd.describe(python=sys._base_executable))
        self.driver = SshDriver(
            self.connection, resource_id="lab", platform_url=url, outputs=None, sign_attempt=lambda _: "token"
        )
        self.waits = True

    def open(self, resource: str) -> RemoteHost:
        if resource not in {"lab", "attic"}:
            raise HostNotAttached(f"No host is attached by SSH as '{resource}'. Attached hosts: lab.")
        if self.waits:
            self.settle()
        return RemoteHost(resource, resource, self.driver.address, self.driver.ask_about_copies)

    def folder(self, name: str) -> Path:
        return self.sshd.folder / name

    def settle(self) -> None:
        """Return when no process works on a copy, but for those that serve one."""
        deadline = real_time.monotonic() + _SETTLE_S
        while any(b"serve" not in words for words in self._list_commands().values()):
            assert real_time.monotonic() < deadline
            real_time.sleep(0.02)

    def list_pids(self, duty: bytes = b"") -> list[int]:
        """Return the processes that work on copies in a folder of this host, or those with one duty."""
        return [pid for pid, words in self._list_commands().items() if not duty or duty in words]

    def _list_commands(self) -> dict[int, list[bytes]]:
        commands = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if b"nearline.pod.copies" in line and os.fsencode(self.sshd.folder) in line:
                commands[int(folder.name)] = line.split(b"\0")
        return commands


@pytest.fixture
def place(tmp_path, live_server, settings):
    settings.ALLOWED_HOSTS = ["*"]
    sshd = Sshd(tmp_path / "host")
    place = Place(sshd, live_server.url)
    before = remote_hosts.install(place.open)
    yield place
    remote_hosts.install(before)
    place.settle()
    for pid in place.list_pids(b"serve"):
        with suppress(ProcessLookupError):  # nobody has asked it for a minute
            os.kill(pid, signal.SIGKILL)
    place.connection.close()
    sshd.kill()


def make_site(place: Place, name: str, **changes) -> CacheSite:
    values = {"root": place.folder(name), "config": {"resource": "lab"}, **changes}
    return cache_sites.create_site(actor=SYSTEM, name=name, kind="ssh", **values)


@pytest.fixture
def site(place):
    return make_site(place, "near")


@pytest.fixture
def other_site(place):
    return make_site(place, "far")


class TestSshSite(CacheSiteContract):
    pass


@pytest.fixture
def dataset(transactional_db, tmp_path, member, project):
    make_store(tmp_path / "store")
    return make_dataset(member, project, "xrays")


@pytest.fixture
def commit(dataset, member):
    return commit_files(member, dataset, FIRST)


def make_row(site, commit, **columns) -> CachedCommit:
    """Keep the row of a copy that somebody has asked for."""
    row = new_row(site, commit)
    CachedCommit.objects.filter(pk=row.pk).update(state=CacheState.QUEUED, started_at=None, **columns)
    return row


def work(row, times: int | None = None) -> CachedCommit:
    """Look after a copy as the periodic task does, so many times or until it is ready or has failed."""
    deadline = real_time.monotonic() + _SETTLE_S
    for number in itertools.count(1):
        cache_hydration.hydrate_cached_commit(cached_commit_id=row.pk)
        row.refresh_from_db()
        if row.state in {CacheState.READY, CacheState.FAILED} or number == times:
            break
        assert real_time.monotonic() < deadline
    return row


def remove(row) -> CachedCommit:
    """Remove a copy, whoever was at it before."""
    CachedCommit.objects.filter(pk=row.pk).update(state=CacheState.EVICTING, lease_expires_at=None)
    evictions.remove_copy(cached_commit_id=row.pk)
    row.refresh_from_db()
    return row


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_ready_copy_is_a_read_only_folder_of_the_host_with_a_marker_that_names_its_root(site, place, commit):
    row = work(make_row(site, commit))

    assert (row.state, row.error) == (CacheState.READY, "")
    copy = place.folder("near") / row.pk
    assert row.source == {"kind": "remote_folder", "resource": "lab", "path": str(copy / "files")}
    assert files_in(copy / "files") == FIRST
    assert json.loads((copy / "READY").read_text())["root"] == commit.root
    assert {path.stat().st_mode & 0o222 for path in (copy / "files").rglob("*")} == {0}
    assert list((place.folder("near") / ".work").iterdir()) == []


@pytest.fixture
def attic(place):
    """A site on another host, which is the same machine."""
    return make_site(place, "attic", config={"resource": "attic"})


def test_what_another_host_has_is_read_from_there_and_not_from_the_store(site, attic, place, commit):
    there = work(make_row(attic, commit))

    row = work(make_row(site, commit))

    assert (row.state, row.donor, row.bytes_copied, row.bytes_moved) == (CacheState.READY, there, row.bytes_total, 0)
    assert files_in(place.folder("near") / row.pk / "files") == FIRST
    assert len(place.list_pids(b"serve")) == 1
    assert [path.name for path in (place.folder("attic") / ".work").rglob("token")] == []
    wait_until(lambda: remove(there).state == CacheState.GONE)
    assert place.list_pids(b"serve") == []


def test_what_another_host_has_lost_is_read_from_the_store(site, attic, place, commit):
    there = work(make_row(attic, commit))
    (place.folder("attic") / there.pk / "files").rename(place.folder("lost"))
    shutil.copytree(place.folder("lost"), place.folder("attic") / there.pk / "files")
    (place.folder("attic") / there.pk / "files" / "a").chmod(0o755)
    (place.folder("attic") / there.pk / "files" / "a" / "one").unlink()

    row = work(make_row(site, commit))

    moved = len(FIRST["a/one"])
    assert (row.state, row.bytes_copied, row.bytes_moved) == (CacheState.READY, row.bytes_total - moved, moved)
    assert files_in(place.folder("near") / row.pk / "files") == FIRST


@pytest.fixture
def begin(place, monkeypatch):
    """Begin to fill a copy, whose process waits before it looks at files; return what lets it go on."""
    sign, gates = copies.sign_downloads, {}

    def wait_and_sign(*, copy, **request):
        if copy.pk in gates:
            waits, may_read = gates[copy.pk]
            waits.set()
            assert may_read.wait(600)
        return sign(copy=copy, **request)

    def begin(row: CachedCommit) -> Callable[[], None]:
        waits, may_read = gates[row.pk] = threading.Event(), threading.Event()
        place.waits = False
        work(row, times=1)
        assert waits.wait(_SETTLE_S)
        return may_read.set

    monkeypatch.setattr(copies, "sign_downloads", wait_and_sign)
    yield begin
    for _, may_read in gates.values():
        may_read.set()


def test_what_a_host_has_that_is_being_filled_is_read_from_there(site, attic, place, commit, begin):
    there, row = make_row(attic, commit), make_row(site, commit)
    go_on = begin(there)
    appear(place.folder("attic") / there.pk / "files", *FIRST)

    wait_until(lambda: work(row, times=1).state == CacheState.READY)

    there.refresh_from_db()
    assert (there.state, row.donor) == (CacheState.HYDRATING, there)
    assert (row.bytes_copied, row.bytes_moved) == (row.bytes_total, 0)
    assert files_in(place.folder("near") / row.pk / "files") == FIRST
    go_on()
    wait_until(lambda: work(there, times=1).state == CacheState.READY)


def appear(files: Path, *names: str) -> None:
    """Have files of a copy appear as the process would that fills it, and waits."""
    draft = files / ".nearline" / "parts" / "draft"
    for name in names:
        if not (files / name).exists():
            for folder in ((files / name).parent, draft.parent):
                folder.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(FIRST[name])
            draft.chmod(0o444)
            draft.rename(files / name)


def test_a_job_reads_a_copy_in_its_place_before_it_is_complete_and_after(site, place, commit, begin):
    row = make_row(site, commit)
    go_on = begin(row)
    appear(place.folder("near") / row.pk / "files", "a/one")
    CachedCommit.objects.filter(pk=row.pk).update(bytes_done=1)
    row.refresh_from_db()
    source = source_from_json(row.early_source)
    read = "cat $NEARLINE_DATA/xrays/a/one; until cat $NEARLINE_DATA/xrays/a/two; do sleep 0.1; done 2>/dev/null"

    place.driver.start(make_launch("reader", read, data=[Mount("xrays", source)]))
    wait_until(lambda: place.driver.read_log("reader", 0, 100_000).data.startswith(FIRST["a/one"]))
    go_on()
    wait_until(lambda: work(row, times=1).state == CacheState.READY)
    both = FIRST["a/one"] + FIRST["a/two"]
    wait_until(lambda: len(place.driver.read_log("reader", 0, 100_000).data) >= len(both))

    assert place.driver.read_log("reader", 0, 100_000).data == both
    assert source_from_json(row.source) == source


def test_a_host_waits_for_the_one_that_is_filled_first_until_that_has_failed(site, attic, place, commit):
    there, row = make_row(attic, commit), make_row(site, commit)
    CachedCommit.objects.filter(pk=there.pk).update(state=CacheState.HYDRATING)

    waiting = work(row, times=2)
    assert (waiting.state, waiting.donor, place.list_pids()) == (CacheState.HYDRATING, there, [])
    assert waiting.waits_for == "the copy from which it is filled"
    CachedCommit.objects.filter(pk=there.pk).update(state=CacheState.FAILED)

    assert (work(row).state, row.bytes_copied, row.bytes_moved) == (CacheState.READY, 0, row.bytes_total)


def test_of_two_hosts_that_have_a_commit_its_own_gives_it(site, other_site, attic, place, commit):
    work(make_row(attic, commit))
    here = work(make_row(other_site, commit))

    row = work(make_row(site, commit))

    assert (row.donor, row.bytes_copied) == (here, row.bytes_total)


def test_a_filling_whose_process_is_killed_goes_on(site, place, commit, begin):
    row = make_row(site, commit)
    go_on = begin(row)
    for pid in place.list_pids():
        os.kill(pid, signal.SIGKILL)
    go_on()
    place.waits = True

    assert work(row).state == CacheState.READY
    assert files_in(place.folder("near") / row.pk / "files") == FIRST


def test_what_may_be_read_next_stops_for_what_is_needed_now_and_goes_on_then(site, place, commit, member, begin):
    ahead = make_row(site, commit, is_for_holders=True)
    CacheHold.objects.create(cached_commit=ahead, holder="next", why="a step", is_ahead=True)
    go_on = begin(ahead)
    needed = make_row(site, commit_files(member, make_dataset(member, commit.dataset.project, "urgent"), FIRST))

    stopped = work(ahead, times=1)
    assert (stopped.state, stopped.waits_for) == (CacheState.QUEUED, "the copies that are needed on near now")
    assert place.list_pids() == []
    go_on()
    place.waits = True
    assert work(needed).state == CacheState.READY
    assert work(ahead).state == CacheState.READY
    assert files_in(place.folder("near") / ahead.pk / "files") == FIRST


def test_a_host_that_does_not_answer_makes_nothing_fail_and_is_adopted_when_it_is_back(site, place, commit, member):
    ready = work(make_row(site, commit))
    other = make_row(site, commit_files(member, commit.dataset, {"b": b"new" * 1000}))
    place.sshd.kill()

    lost = work(other, times=2)
    assert (lost.state, lost.error) == (CacheState.HYDRATING, "")
    assert lost.waits_for.startswith("the host: ")
    assert registry.open_site(site).usage().free_bytes == site.capacity_bytes - ready.reserved_bytes
    held = remove(ready)
    assert (held.state, held.waits_for.partition(": ")[0]) == (CacheState.EVICTING, "its site")
    place.sshd.start()

    wait_until(lambda: work(lost).state == CacheState.READY)
    assert remove(ready).state == CacheState.GONE
    assert list(registry.open_site(site).list()) == [lost.pk]


def test_a_copy_is_not_removed_while_a_job_on_the_host_reads_it(site, place, commit):
    row = work(make_row(site, commit))
    files = RemoteFolder("lab", str(place.folder("near") / row.pk / "files"))
    command = "cat $NEARLINE_DATA/xrays/a/one; exec sleep 600"
    place.driver.start(make_launch("reader", command, data=[Mount("xrays", files)]))
    wait_until(lambda: place.driver.read_log("reader", 0, 10_000).data == FIRST["a/one"])

    held = remove(row)
    assert (held.state, held.waits_for) == (CacheState.EVICTING, "the end of the job reader, which reads it")
    assert files_in(place.folder("near") / row.pk / "files") == FIRST
    place.driver.stop("reader", 0)
    wait_until(lambda: place.driver.list_jobs()[0].state not in {"starting", "running"})

    assert remove(row).state == CacheState.GONE
    assert [path.name for path in place.folder("near").glob("[!.]*")] == []


def test_jobs_see_only_those_copies_of_the_folder_that_they_mount(place, commit):
    folder = place.sshd.programs / "cache"  # jobs see what lies in a folder of programs
    (folder / "lost+found").mkdir(parents=True)
    before = run_job(place, "before", f"ls {folder}")
    row = work(make_row(make_site(place, "near", root=folder), commit))

    after = run_job(place, "later", f"ls {folder}")

    assert (before, row.state, after) == (b"lost+found\n", CacheState.READY, b"")


def run_job(place, name: str, command: str) -> bytes:
    place.driver.start(make_launch(name, command))
    wait_until(lambda: place.driver.list_jobs()[-1].state in {"succeeded", "failed"})
    return place.driver.read_log(name, 0, 10_000).data


def test_a_flipped_bit_is_found_named_and_healed(site, place, commit):
    row = work(make_row(site, commit))
    damaged = place.folder("near") / row.pk / "files" / "a" / "one"
    status = damaged.stat()
    damaged.chmod(0o644)
    damaged.write_bytes(b"0" + FIRST["a/one"][1:])
    damaged.chmod(0o444)
    os.utime(damaged, ns=(status.st_atime_ns, status.st_mtime_ns))
    CachedCommit.objects.filter(pk=row.pk).update(scrub_requested_at=clock.now())

    for _ in range(2):
        scrubs.scrub_cached_commit(cached_commit_id=row.pk)

    assert files_in(place.folder("near") / row.pk / "files") == FIRST
    told = CachedCommitEvent.objects.filter(cached_commit=row, kind__in=("damaged", "healed")).order_by("pk")
    assert [event.message for event in told] == ["Not as the commit says: a/one (changed).", "Healed from the store."]


def test_a_copy_that_somebody_deleted_is_given_up_by_the_scrub_and_can_be_made_again(site, place, commit):
    row = work(make_row(site, commit))
    folder = place.folder("near") / row.pk
    for path in [folder, *folder.rglob("*/")]:
        path.chmod(0o700)
    shutil.rmtree(folder)
    CachedCommit.objects.filter(pk=row.pk).update(scrub_requested_at=clock.now())

    scrubs.scrub_cached_commit(cached_commit_id=row.pk)

    row.refresh_from_db()
    assert (row.state, row.error_code) == ("evicting", "datasets.copy_gone")
    evictions.remove_copy(cached_commit_id=row.pk)
    row.refresh_from_db()
    assert row.state == "gone"


def test_what_no_row_wants_is_swept_away_but_nothing_of_another_site(site, place, commit):
    row = work(make_row(site, commit))
    CachedCommit.objects.filter(pk=row.pk).delete()
    owner = place.folder("near") / ".nearline-site"

    owner.write_text("site_2")
    evictions.sweep_leftovers()
    assert files_in(place.folder("near") / row.pk / "files") == FIRST
    owner.write_text(site.pk)
    evictions.sweep_leftovers()

    assert not (place.folder("near") / row.pk).exists()


def test_a_disk_that_is_not_mounted_is_waited_for_and_nothing_is_written_in_its_place(site, place, commit, member):
    work(make_row(site, commit))
    place.folder("near").rename(place.folder("elsewhere"))

    row = work(make_row(site, commit_files(member, commit.dataset, {"b": b"new"})), times=2)

    assert (row.state, "Is its disk mounted?" in row.waits_for) == (CacheState.HYDRATING, True)
    assert not place.folder("near").exists()


def test_a_folder_that_cannot_be_the_sites_is_refused_with_what_to_do(site, place):
    place.folder("link").symlink_to(place.folder("real"))
    (place.folder("full") / "photos").mkdir(parents=True)
    (place.folder("file")).write_text("")
    (place.folder("foreign") / "in").mkdir(parents=True)
    (place.folder("foreign") / ".nearline-site").write_text("site_2")
    words = {
        "../up": "without '..'",
        "near/in": "of the site 'near' lie in each other",
        "link": f"leads to {place.folder('real')} by a symbolic link. Give",
        "nearline": "where jobs of the host have their files, lie in each other",
        "full": "holds other files, such as photos. Choose an empty folder",
        "file/in": "Not a directory. Make it there",
        "foreign": "holds the copies of another cache site",
    }

    for name, fault in words.items():
        with pytest.raises(InvalidCacheSite, match=fault):
            make_site(place, "bad", root=f"{place.sshd.folder}/{name}")
    with pytest.raises(InvalidCacheSite, match="No host is attached by SSH as 'nowhere'"):
        make_site(place, "bad", config={"resource": "nowhere"})
    assert list(CacheSite.objects.values_list("name", flat=True)) == ["near"]


def test_a_python_that_lacks_a_package_is_told_with_what_to_install(place):
    found = place.connection.call("check_copies", root=str(place.folder("near")), site="site_1", packages="none")

    assert "does not run with Python" in found["fault"]
    assert "No module named 'httpx'" in found["fault"]
    assert "-m pip install blake3" in found["fault"]
    assert not place.folder("near").exists()


def wait_until(holds) -> None:
    deadline = real_time.monotonic() + _SETTLE_S
    while not holds():
        assert real_time.monotonic() < deadline
        real_time.sleep(0.02)


@pytest.mark.django_db
def test_a_capacity_above_the_disk_of_the_host_is_refused_while_it_answers(place):
    site = make_site(place, "near")
    size_bytes = shutil.disk_usage(place.sshd.folder).total

    with pytest.raises(InvalidCacheSite, match=r"near cannot hold .* in all, whoever uses them"):
        cache_sites.update_site(actor=SYSTEM, site=site, capacity_bytes=size_bytes + 1)

    place.waits = False
    place.sshd.kill()
    place.connection.close()
    assert cache_sites.update_site(actor=SYSTEM, site=site, capacity_bytes=size_bytes + 1).capacity_bytes > size_bytes
