"""What a pod does for a cached commit on a volume: it fills it, goes on where another stopped, and heals it."""

import json
import os
import stat
import time
from dataclasses import replace

import httpx
import pytest

from client.tests.pod.conftest import FILES, contents, counts
from nearline._http import api_policy
from nearline.errors import Denied
from nearline.pod import copies


def open_for_writing(folder):
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755)


def test_a_volume_has_exactly_the_files_of_the_commit_read_only_and_names_its_root(server, pod, volume):
    server.commit(FILES)

    code, noted = pod("fill", volume)

    assert (code, counts(noted)) == (0, (18_001, 0, 0, 18_001))
    assert contents(volume / "files") == FILES
    assert json.loads((volume / "READY").read_text())["root"] == noted["root"]
    assert sorted(path.name for path in volume.iterdir()) == ["READY", "files"]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (volume / "files").rglob("*")}
    assert modes == {0o444, 0o555}
    assert server.reports[-1]["bytes_done"] == 18_001


def test_a_volume_that_is_ready_is_told_again_and_not_read(server, pod, volume):
    server.commit(FILES)
    _, first = pod("fill", volume)
    server.dataset.store.fail("get", *[Denied("No.", code="test.no") for _ in range(50)])

    assert pod("fill", volume) == (0, first)


def test_a_platform_that_is_away_when_a_pod_begins_is_waited_for(server, pod, volume, monkeypatch):
    server.commit(FILES)
    waits, send = [], httpx.Client.send

    def send_if_there(client, request, **options):
        if len(waits) < 5:
            raise httpx.ConnectError("Connection refused", request=request)
        return send(client, request, **options)

    monkeypatch.setattr(httpx.Client, "send", send_if_there)
    monkeypatch.setattr(copies, "api_policy", lambda: replace(api_policy(), sleep=waits.append))

    code, noted = pod("fill", volume)

    assert (code, noted["bytes_done"], len(waits)) == (0, 18_001, 5)


def test_of_a_clone_only_what_differs_is_fetched(server, pod, volume):
    server.commit(FILES)
    pod("fill", volume)
    after = {"a/two": FILES["a/two"], "b/deep": b"4" * 100}
    server.commit(after)

    code, noted = pod("fill", volume)

    assert (code, counts(noted)) == (0, (9100, 9000, 0, 100))
    assert contents(volume / "files") == after
    assert stat.S_IMODE((volume / "files/a").stat().st_mode) == 0o555


def visible(folder):
    return {path: content for path, content in contents(folder).items() if not path.startswith(".nearline/")}


def test_what_shows_of_a_clone_that_is_being_filled_is_of_its_commit(server, pod, volume):
    server.commit({**FILES, "c": b"7" * 100, "d": b"8", "e/f": b"9"})
    pod("fill", volume)
    after = {**FILES, "a/one": b"5" * 9000, "c/deep": b"7" * 100, "e": b"9"}
    server.commit(after)
    seen = []
    server.dataset.store.fail("get", *[lambda: seen.append(visible(volume / "files"))] * 50)

    pod("fill", volume)

    before_the_first_pack = seen.index({"a/two": FILES["a/two"], "b": FILES["b"]})
    assert all(after[name] == content for files in seen[before_the_first_pack:] for name, content in files.items())
    assert contents(volume / "files") == after


def test_what_shows_of_a_copy_that_is_being_filled_is_whole(server, pod, volume):
    server.commit(FILES)
    server.commit({**FILES, "c": b"4" * 9000})
    seen, store = [], server.dataset.store
    store.fail("get", *[lambda: seen.append(visible(volume / "files"))] * 50)

    pod("fill", volume)

    assert len(seen) > 1
    assert all(server.files[name] == content for files in seen for name, content in files.items())


def test_the_packs_that_the_platform_names_are_read_first(server, pod, volume):
    files = {"a": b"1" * 9000, "b": b"2" * 9000, "c": b"3" * 9000}
    for count in (1, 2, 3):
        server.commit(dict(list(files.items())[:count]))
    newest = list(server.dataset.store.entries(server.dataset.store.commits[-1]["root"]))[-1]
    server.next_packs = [newest.blobs[0].pack.hex()]
    seen = []

    def look() -> None:
        seen.append(sorted(visible(volume / "files")))
        give_up_at = time.monotonic() + 120
        while len(server.reports) < 2:  # the answer to the first one has been read by the second
            assert time.monotonic() < give_up_at
            time.sleep(0.02)

    server.dataset.store.fail("get", *[look] * 5)
    pod("fill", volume)

    assert seen[-3:] == [[], ["c"], ["a", "c"]]


def test_a_file_of_a_clone_that_somebody_wrote_to_is_fetched(server, pod, volume):
    server.commit(FILES)
    pod("fill", volume)
    open_for_writing(volume / "files")
    (volume / "files/a/one").write_bytes(b"x" * 9000)
    after = {**FILES, "b": b"4"}
    server.commit(after)

    code, noted = pod("fill", volume)

    assert (code, noted["bytes_shared"]) == (0, 9000)
    assert contents(volume / "files") == after


@pytest.mark.parametrize("reads", [1, 2, 3])
def test_a_pod_goes_on_where_another_was_killed_also_in_a_clone(server, pod, volume, reads):
    server.commit(FILES)
    pod("fill", volume)
    after = {"a/one": b"5" * 9000, "c": b"6" * 100}
    server.commit(after)
    server.dataset.store.fail("get", *[None] * reads, *[Denied("No.", code="test.no") for _ in range(50)])
    code, noted = pod("fill", volume)
    assert (code, noted["code"]) == (1, "test.no")
    server.dataset.store.before.clear()
    (volume / "files/a").chmod(0o755)
    (volume / "files/a/one").unlink(missing_ok=True)
    (volume / "files/a/one").write_bytes(b"5" * 10)

    code, _ = pod("fill", volume)

    assert code == 0
    assert contents(volume / "files") == after
    assert not (volume / "FILLING").exists()


def test_a_mounted_copy_gives_its_files_and_what_it_lacks_comes_from_the_store(server, pod, volume, tmp_path):
    server.commit(FILES)
    donor = tmp_path / "donor"
    for path, content in {**FILES, "a/two": b"x" * 9000}.items():
        (donor / path).parent.mkdir(parents=True, exist_ok=True)
        (donor / path).write_bytes(content)

    code, noted = pod("fill", volume, donor)

    assert (code, counts(noted)) == (0, (18_001, 0, 9001, 9000))
    assert contents(volume / "files") == FILES


def test_what_cannot_be_read_of_a_mounted_copy_comes_from_the_store(server, pod, volume, tmp_path):
    server.commit(FILES)
    donor = tmp_path / "donor"
    (donor / "a/one").mkdir(parents=True)
    (donor / "a/two").symlink_to("/proc/self/mem")  # opened, it gives EIO

    code, noted = pod("fill", volume, donor)

    assert (code, counts(noted)) == (0, (18_001, 0, 0, 18_001))
    assert contents(volume / "files") == FILES


def test_damage_is_named_and_healed(server, pod, volume):
    server.commit(FILES)
    pod("fill", volume)
    files = volume / "files"
    open_for_writing(files)
    before = (files / "a/one").stat()
    (files / "a/one").write_bytes(b"x" * 9000)
    os.utime(files / "a/one", ns=(before.st_mtime_ns, before.st_mtime_ns))
    (files / "a/one").chmod(0o444)
    (files / "b").unlink()
    (files / "stray").write_bytes(b"?")

    code, noted = pod("verify", volume)

    assert code == 0
    assert noted["files"] == [["a/one", "changed", []], ["b", "missing", []], ["stray", "stray", []]]
    assert contents(files) == FILES


def test_jobs_that_read_a_copy_have_each_of_its_files_while_it_is_healed(server, pod, volume):
    server.commit(FILES)
    pod("fill", volume)
    files = volume / "files"
    open_for_writing(files)
    damaged = {**FILES, "a/one": b"x" * 9000}
    (files / "a/one").write_bytes(damaged["a/one"])
    seen = []
    server.dataset.store.fail("get", *[lambda: seen.append(visible(files))] * 50)

    _, noted = pod("verify", volume)

    assert noted["files"] == [["a/one", "changed", []]]
    assert seen[-1] == damaged  # as its pack is asked for
    assert contents(files) == FILES
    assert not (files / ".nearline").exists()


def test_of_a_part_the_others_are_only_looked_at(server, pod, volume):
    server.commit({"a": b"1" * 100})
    pod("fill", volume)
    files = volume / "files"
    files.chmod(0o755)
    before = (files / "a").stat()
    (files / "a").chmod(0o644)
    (files / "a").write_bytes(b"x" * 100)
    os.utime(files / "a", ns=(before.st_mtime_ns, before.st_mtime_ns))
    (files / "a").chmod(0o444)

    found = [pod("verify", volume, "--part", f"{number}/3")[1]["damaged"] for number in range(3)]

    assert sorted(found) == [0, 0, 1]


def test_a_token_that_is_not_known_any_more_ends_the_pod_so_that_another_may_try(server, pod, volume):
    server.commit(FILES)
    server.is_wanted = False

    code, noted = pod("fill", volume)

    assert (code, noted["code"]) == (1, "accounts.not_signed_in")
    assert list(volume.iterdir()) == []
