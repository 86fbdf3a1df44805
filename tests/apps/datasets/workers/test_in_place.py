"""Files that stay where they are: a dataset refers to them, and every reader gets what was imported or a named error."""

import hashlib
import json
import os
import random
import shutil
from datetime import timedelta

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounts.permissions import Actor
from client.tests.deep_folders import deep_folder
from core import clock
from core.errors import InvalidInput
from datasets.adapters.hydration import hydrate
from datasets.adapters.opening import open_dataset_store, open_manifests, open_store
from datasets.engine.layout import map_key, pack_key
from datasets.errors import (
    ImportNotReady,
    InvalidSource,
    SourceFileChanged,
    SourceFileMissing,
    SourceInUse,
    SourceNotFound,
    SourceUnreachable,
    StorageLimitReached,
)
from datasets.models import Branch, Dataset, FileSource, ImportState, InPlaceImport, Pack, PackState, UploadSession
from datasets.selectors import storage
from datasets.selectors.damage import get_damage
from datasets.selectors.trees import list_entries
from datasets.services import downloads, in_place, sources, storage_limits
from datasets.services.downloads import Wanted
from datasets.services.in_place import Preview
from datasets.services.uploads import ObjectKind
from datasets.workers import collection, rebuilds, records, store_checks
from datasets.workers import in_place as worker
from datasets.workers.store_checks import Level
from tests.factories.browsers import browser_of
from tests.factories.datasets import commit_files, make_dataset, read_tree
from tests.factories.disasters import lose_database

ROOT = Actor.system("test")
# Stored in several chunks.
LARGE = random.Random(3).randbytes(18 << 20)
FILES = {
    "a/one.bin": b"one" * 1000,
    "a/two.bin": b"two" * 1000,
    "b/empty": b"",
    "b/same.bin": b"one" * 1000,
    "c.txt": b"text",
}


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "nfs"
    write(place / "set", FILES)
    return place


@pytest.fixture
def source(dataset, folder, project):
    return sources.set_source(actor=ROOT, name="nfs", location=str(folder), projects=[project])


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def import_files(member, dataset, **what) -> InPlaceImport:
    row = in_place.request_import(actor=member, dataset=dataset, source="nfs", **{"prefix": "set", **what})
    worker.work_on(row.pk)
    row.refresh_from_db()
    return row


def check(member, row) -> InPlaceImport:
    in_place.request_check(actor=member, row=row)
    worker.work_on(row.pk)
    row.refresh_from_db()
    return row


def promote(member, row) -> InPlaceImport:
    in_place.promote(actor=member, row=row)
    worker.work_on(row.pk)
    row.refresh_from_db()
    return row


def clone(dataset, commit, target):
    commit.dataset = dataset
    hydrate(open_dataset_store(dataset), list_entries(commit), target)
    return read_tree(target)


def test_files_are_read_once_and_none_is_copied(source, dataset, member, tmp_path):
    row = import_files(member, dataset)

    size = sum(map(len, FILES.values()))
    assert (row.state, row.error, row.files, row.size_bytes, row.read_bytes) == ("referenced", "", 5, size, size)
    packs = [blob.key for blob in open_manifests(dataset).list_blobs("packs/")]
    maps = list(open_manifests(dataset).list_blobs("maps/"))
    assert (packs, [blob.size_bytes for blob in maps]) == ([], [row.written_bytes])
    measured = storage.measure_dataset(actor=member, dataset=dataset)
    assert (measured.stored_bytes, measured.referenced_bytes) == (0, Pack.objects.get().size_bytes)
    assert clone(dataset, row.commit, tmp_path / "clone") == FILES


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.text("abc.-é ", min_size=1, max_size=4).filter(lambda name: name not in {".", ".."}),
        st.one_of(st.binary(max_size=50), st.sampled_from([LARGE, LARGE[:-7], LARGE[99:]])),
        min_size=1,
        max_size=4,
    )
)
def test_a_clone_of_what_was_imported_equals_one_of_what_was_copied(source, folder, member, tmp_path, files):
    shutil.rmtree(folder / "set", ignore_errors=True)
    write(folder / "set", files)
    mapped, copied = (make_dataset(member, source.projects.get()) for _ in range(2))
    target = tmp_path / mapped.name

    first = import_files(member, mapped)
    second = commit_files(member, copied, files)
    cloned = clone(mapped, first.commit, target / "mapped")

    assert cloned == clone(copied, second, target / "copied") == files
    assert promote(member, first).state == "promoted"
    shutil.rmtree(folder / "set")
    assert clone(mapped, first.commit, target / "promoted") == files
    shutil.rmtree(target)


def put_into_cache(folder, content: bytes, ending: str = "") -> str:
    """Keep content as DVC 3 does, and return its name."""
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    write(folder, {f".dvc/cache/files/md5/{md5[:2]}/{md5[2:]}{ending}": content})
    return md5


def put_listing(folder, files) -> str:
    """Keep files in the cache of a DVC repository, and return the path of their listing."""
    items = [{"md5": put_into_cache(folder, content), "relpath": name} for name, content in files.items()]
    md5 = put_into_cache(folder, json.dumps(items).encode(), ".dir")
    return f".dvc/cache/files/md5/{md5[:2]}/{md5[2:]}.dir"


def test_a_listing_of_dvc_is_imported_out_of_its_cache_under_its_paths(source, folder, dataset, member, tmp_path):
    listing = put_listing(folder, FILES)
    put_into_cache(folder, b"of another dataset")

    row = import_files(member, dataset, prefix=listing, directory="lungs")

    assert (row.state, row.error, row.files) == ("referenced", "", 5)
    assert clone(dataset, row.commit, tmp_path / "clone") == {f"lungs/{name}": data for name, data in FILES.items()}
    assert list(open_manifests(dataset).list_blobs("packs/")) == []
    previewed = in_place.preview_import(actor=member, project=dataset.project, source="nfs", prefix=listing)
    assert (previewed.files, previewed.size_bytes) == (5, row.size_bytes)
    assert check(member, row).changed_files == 0


@pytest.mark.parametrize(("limit", "most"), [("_MOST_LISTED", 3), ("_MOST_READ_BYTES", 30)])
def test_a_preview_of_a_large_cache_of_dvc_ends_and_says_so(
    source, folder, dataset, member, monkeypatch, *, limit, most
):
    listing = put_listing(folder, FILES)
    monkeypatch.setattr(in_place, limit, most)
    browser = browser_of(member)

    preview = in_place.preview_import(actor=member, project=dataset.project, source="nfs", prefix=listing)
    address = f"/datasets/{dataset.project.name}/{dataset.name}/imports/preview/"
    page = browser.get(address, {"source": "nfs", "folder": listing}).content.decode()

    assert preview == Preview(0, 0, [], is_complete=False)
    assert "It holds too many files to be looked at here." in page
    assert import_files(member, dataset, prefix=listing).state == "referenced"


def test_a_listing_of_dvc_whose_files_are_not_there_or_lead_out_is_refused(source, folder, dataset, member):
    listing = put_listing(folder, {"a/one": b"one"})
    md5 = hashlib.md5(b"one", usedforsecurity=False).hexdigest()
    (folder / f".dvc/cache/files/md5/{md5[:2]}/{md5[2:]}").unlink()
    outside = put_listing(folder, {"../out": b"two"})

    missing, refused = (import_files(member, dataset, prefix=prefix) for prefix in (listing, outside))

    assert missing.error == "'a/one' is not in the cache of DVC: run `dvc fetch`, then import again."
    assert refused.error.startswith(f"'{outside}' is no list of files as DVC writes it: '../out' ")


def test_a_repository_of_dvc_is_imported_out_of_its_cache_under_the_paths_that_it_tracks(
    source, folder, dataset, member, tmp_path
):
    """Files of DVC 3 and 2, a folder, the output of a stage, and what lies in the working tree alone."""
    one, two, old = b"one" * 1000, b"two" * 1000, b"old" * 1000
    md5 = put_into_cache(folder / "repo", one)
    listed = put_listing(folder / "repo", {"x/1": one, "2": two}).rsplit("/", 2)
    old_md5, plain_md5 = (hashlib.md5(data, usedforsecurity=False).hexdigest() for data in (old, b"plain"))
    tracked = {
        ".dvc/config": "",
        f".dvc/cache/{old_md5[:2]}/{old_md5[2:]}": old,
        "one.bin.dvc": f"outs:\n- md5: {md5}\n  hash: md5\n  path: one.bin\n",
        "data/all.dvc": f"wdir: ..\nouts:\n- md5: {listed[1]}{listed[2]}\n  hash: md5\n  path: all\n",
        "stages/dvc.yaml": (
            "stages:\n  train:\n    wdir: run\n    metrics:\n    - plain: {cache: false}\n    plots:\n    - curves: {cache: false}\n"
        ),
        "stages/dvc.lock": (
            f"schema: '2.0'\nstages:\n  train:\n    cmd: none\n    deps:\n    - path: code\n    outs:\n"
            f"    - path: ../../old.bin\n      md5: {old_md5}\n    - path: plain\n      md5: {plain_md5}\n"
            f"    - path: curves\n      md5: {'c' * 32}.dir\n"
        ),
        "stages/run/plain": "plain",
        "stages/run/curves/loss": "1,2",
        "readme.txt": "not tracked",
    }
    write(folder / "repo", {name: text.encode() if isinstance(text, str) else text for name, text in tracked.items()})

    row = import_files(member, dataset, prefix="repo/.dvc")

    assert (row.state, row.error) == ("referenced", "")
    expected = {"all/2": two, "all/x/1": one, "old.bin": old, "one.bin": one, "stages/run/plain": b"plain"}
    expected["stages/run/curves/loss"] = b"1,2"
    assert clone(dataset, row.commit, tmp_path / "clone") == expected
    assert list(open_manifests(dataset).list_blobs("packs/")) == []
    # What the repository tracks by now does not matter: the content is still in its cache.
    (folder / "repo/data/all.dvc").unlink()
    assert check(member, row).changed_files == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("outs:\n- path: a\n", "'a.dvc' says no MD5 of 'a': run `dvc commit`, then import again."),
        (f"outs:\n- path: ../a\n  md5: {'a' * 32}\n", "'a.dvc' tracks '../a', which is no path in it."),
        (
            f"outs:\n- path: a\n  md5: {'a' * 32}\n",
            "'a' is not in the cache of DVC: run `dvc fetch`, then import again.",
        ),
        ("outs: [", "'a.dvc' is no file of DVC. It is not YAML: while parsing a flow node."),
        (f"outs:\n- path: true\n  md5: {'a' * 32}\n", "'a.dvc' tracks an output without a path that is text."),
        ("outs: {a: b}", "'nfs:.dvc' holds no file that a dataset can carry."),
        ("#" * 4_200_000, "'a.dvc' is no file, or one of more than 4,194,304 bytes."),
    ],
)
@pytest.mark.usefixtures("source")
def test_a_repository_of_dvc_that_cannot_be_imported_whole_is_refused(folder, dataset, member, text, error):
    write(folder, {".dvc/config": b"", "a.dvc": text.encode()})

    assert import_files(member, dataset, prefix=".dvc").error == error


@pytest.mark.usefixtures("source")
def test_hashes_and_paths_of_digits_alone_are_what_stands_in_a_repository_of_dvc(folder, dataset, member, tmp_path):
    digits = "0" * 31 + "8"
    outs = f"outs:\n- md5: {digits}\n  path: 007\n".encode()
    write(folder, {"a.dvc": outs, f".dvc/cache/files/md5/{digits[:2]}/{digits[2:]}": b"x"})

    row = import_files(member, dataset, prefix=".dvc")

    assert clone(dataset, row.commit, tmp_path / "clone") == {"007": b"x"}


BREAK = {
    "changed": (lambda path: path.write_bytes(b"bad" * 1000), SourceFileChanged, "is not what it was"),
    "truncated": (lambda path: path.write_bytes(b"two" * 10), SourceFileChanged, "is shorter than"),
    "deleted": (lambda path: path.unlink(), SourceFileMissing, "is not in the source 'nfs'."),
    "a link out": (
        lambda path: (path.unlink(), path.symlink_to("/etc/passwd")),
        SourceFileMissing,
        "is a link now, which is not followed",
    ),
}


@pytest.mark.parametrize("harm", BREAK)
def test_a_file_that_is_not_as_it_was_is_named_and_heals_when_it_is_back(harm, source, folder, dataset, member):
    row = import_files(member, dataset)
    path = folder / "set/a/two.bin"
    pack = Pack.objects.get()
    act, error, words = BREAK[harm]

    act(path)
    with pytest.raises(error, match=words) as caught:
        open_dataset_store(dataset).get(pack_key(pack.sha256))
    checked = check(member, row)

    assert caught.value.details["path"] == "set/a/two.bin"
    assert (checked.changed, checked.changed_files) == (["set/a/two.bin"], 1)
    pack.refresh_from_db()
    assert (pack.state, pack.damaged_parts) == (PackState.DAMAGED, [[3000, 3000]])
    # What is whole is served.
    assert open_dataset_store(dataset).get_range(pack_key(pack.sha256), 0, 3000) == FILES["a/one.bin"]
    assert promote(member, row).state == ImportState.REFERENCED
    found = get_damage(member, dataset, row.commit)
    assert (found.is_in_source, found.files) == (True, [b"a/two.bin"])

    path.unlink(missing_ok=True)
    path.write_bytes(FILES["a/two.bin"])
    healed = check(member, row)

    pack.refresh_from_db()
    assert (healed.changed, healed.changed_files, pack.state) == ([], 0, PackState.COMPLETE)


def test_a_file_that_was_put_back_is_promoted_without_a_check_before(source, folder, dataset, member):
    row = import_files(member, dataset)
    write(folder / "set", {"a/two.bin": b"bad" * 1000})
    assert promote(member, row).changed == ["set/a/two.bin"]
    write(folder / "set", {"a/two.bin": FILES["a/two.bin"]})

    promoted = promote(member, row)

    assert (promoted.state, promoted.changed) == ("promoted", [])
    pack = Pack.objects.get()
    assert (pack.state, pack.origin) == (PackState.COMPLETE, None)


def test_a_source_that_is_away_damages_nothing(source, folder, dataset, member, tmp_path):
    row = import_files(member, dataset)
    folder.rename(tmp_path / "away")

    with pytest.raises(SourceUnreachable, match="The source 'nfs' cannot be read"):
        open_dataset_store(dataset).get(pack_key(Pack.objects.get().sha256))
    checked = check(member, row)

    assert (checked.state, checked.error_code) == ("referenced", "datasets.source_unreachable")
    assert promote(member, row).state == "referenced"
    (tmp_path / "away").rename(folder)
    assert (check(member, row).error, Pack.objects.get().state) == ("", PackState.COMPLETE)


def test_a_signed_address_serves_what_was_imported_or_says_which_file_changed(source, folder, dataset, member):
    import_files(member, dataset)
    pack = Pack.objects.get()
    wanted = [Wanted(ObjectKind.PACK, pack.sha256)]
    url = downloads.sign_downloads(actor=member, dataset=dataset, objects=wanted)[0].request.url
    path = "/store/" + url.rpartition("/")[2]

    whole = Client().get(path)
    part = Client().get(path, headers={"Range": "bytes=2990-3009"})
    write(folder / "set", {"a/two.bin": b"bad" * 1000})
    refused = Client().get(path, headers={"Range": "bytes=3000-5999"})

    assert (whole.status_code, len(b"".join(whole.streaming_content))) == (200, pack.size_bytes)
    assert (part.status_code, b"".join(part.streaming_content)) == (206, b"eoneoneonetwotwotwot")
    assert (refused.status_code, refused.json()["code"]) == (409, "datasets.source_file_changed")
    assert "set/a/two.bin" in refused.json()["title"]


def test_a_cancelled_import_leaves_nothing_and_a_cancelled_promotion_what_it_referred_to(
    source, folder, dataset, member, monkeypatch
):
    row = in_place.request_import(actor=member, dataset=dataset, source="nfs", prefix="set")
    monkeypatch.setattr(worker, "_TELL_EVERY", timedelta())
    monkeypatch.setattr(worker.uploads, "prolong", lambda **_: in_place.cancel(actor=member, row=row))

    worker.work_on(row.pk)

    row.refresh_from_db()
    assert (row.state, row.commit, row.error) == ("cancelled", None, "")
    assert list(UploadSession.objects.values_list("state", flat=True)) == ["cancelled"]
    with pytest.raises(ImportNotReady, match="The import is cancelled, so there is nothing to cancel"):
        in_place.cancel(actor=member, row=row)
    monkeypatch.undo()
    done = import_files(member, dataset)
    in_place.promote(actor=member, row=done)
    in_place.cancel(actor=member, row=done)
    worker.work_on(done.pk)
    done.refresh_from_db()
    assert (done.state, Pack.objects.get(origin=done).state) == ("referenced", PackState.COMPLETE)


def test_a_promotion_that_broke_off_goes_on_and_is_charged(source, folder, dataset, member, monkeypatch):
    row = import_files(member, dataset)
    storage_limits.set_limit(actor=ROOT, project=dataset.project, limit_bytes=1)
    assert promote(member, row).error_code == StorageLimitReached.code
    storage_limits.set_limit(actor=ROOT, project=dataset.project, limit_bytes=None)
    monkeypatch.setattr(worker.packs, "take_stored", _die_after_the_map_is_gone)
    with pytest.raises(KeyboardInterrupt):
        promote(member, row)
    monkeypatch.undo()
    row.refresh_from_db()
    assert row.state == "promoting"

    worker.work_on(row.pk)

    row.refresh_from_db()
    pack, own = Pack.objects.get(), open_manifests(dataset)
    assert (row.state, pack.origin, own.stat(map_key(pack.sha256))) == ("promoted", None, None)
    assert own.stat(pack_key(pack.sha256)).size_bytes == pack.size_bytes
    shutil.rmtree(folder)
    assert clone(dataset, row.commit, folder.parent / "clone") == FILES
    sources.remove_source(actor=ROOT, name="nfs")
    assert not FileSource.objects.exists()


def _die_after_the_map_is_gone(dataset, pack):
    own = open_manifests(dataset)
    if own.stat(pack_key(pack.sha256)) is not None:
        own.delete([map_key(pack.sha256)])
        raise KeyboardInterrupt


def test_collection_removes_maps_and_no_file(source, folder, dataset, member):
    import_files(member, dataset)
    with pytest.raises(SourceInUse):
        sources.remove_source(actor=ROOT, name="nfs")
    # What nothing refers to, as after an import that failed at its end.
    dataset.ranges.all().delete()
    dataset.uploads.all().delete()
    Pack.objects.update(state=PackState.CONDEMNED, due_at=clock.now())

    amount = collection.collect()

    assert (amount.packs, amount.size_bytes) == (0, 0)
    assert not Pack.objects.exists()
    assert list(open_manifests(dataset).list_blobs("maps/")) == []
    assert read_tree(folder / "set") == FILES


def test_a_client_that_has_the_bytes_heals_a_pack_whose_file_changed(source, folder, dataset, member):
    row = import_files(member, dataset)
    pack = Pack.objects.get()
    data = open_dataset_store(dataset).get(pack_key(pack.sha256))
    write(folder / "set", {"a/two.bin": b"gone"})
    check(member, row)

    open_dataset_store(dataset).put(pack_key(pack.sha256), data)
    check(member, row)

    pack.refresh_from_db()
    assert (pack.state, pack.origin) == (PackState.COMPLETE, None)


def test_importing_again_maps_only_what_changed(source, folder, dataset, member):
    first = import_files(member, dataset, directory="in/side")
    write(folder / "set", {"c.txt": b"other"})

    second = import_files(member, dataset, directory="in/side")
    third = import_files(member, dataset, directory="in/side")

    assert (second.commit.parent_id, second.commit.changed, second.commit.files) == (first.commit_id, 1, 5)
    assert (third.commit_id, third.written_bytes) == (second.commit_id, 0)


def test_links_that_lead_out_and_pipes_are_left_out_by_name(source, folder, dataset, member):
    (folder / "set/in").symlink_to("c.txt")
    (folder / "set/out").symlink_to("../../secret")
    (folder / "set/folder").symlink_to("/etc")
    os.mkfifo(folder / "set/pipe")

    row = import_files(member, dataset)

    assert (row.files, len(row.skipped)) == (6, 3)
    assert sorted(line.split()[0] for line in row.skipped) == ["set/folder", "set/out", "set/pipe"]
    with pytest.raises(SourceFileMissing):
        import_files(member, dataset, prefix="set/folder")


@pytest.mark.parametrize("prefix", ["none", "set/a.txt/b", "none/.dvc", "files/md5/ab/" + 30 * "0" + ".dir"])
def test_what_is_not_in_the_source_is_refused_at_once(source, dataset, member, prefix):
    with pytest.raises(SourceFileMissing):
        in_place.request_import(actor=member, dataset=dataset, source="nfs", prefix=prefix)

    assert not InPlaceImport.objects.exists()


def test_an_empty_folder_is_refused_at_once(source, folder, dataset, member):
    (folder / "empty").mkdir()

    with pytest.raises(InvalidInput, match="'empty' holds no file"):
        in_place.request_import(actor=member, dataset=dataset, source="nfs", prefix="empty")


def test_only_a_permitted_project_imports_and_only_from_a_registered_place(source, folder, dataset, member, viewer):
    for prefix in ("../store", "set/../..", "a//b"):
        with pytest.raises(Exception, match="cannot be a folder"):
            in_place.request_import(actor=member, dataset=dataset, source="nfs", prefix=prefix)
    with pytest.raises(Exception, match="does not allow you to commit"):
        in_place.request_import(actor=viewer, dataset=dataset, source="nfs", prefix="set")
    sources.set_source(actor=ROOT, name="nfs", projects=[])
    with pytest.raises(SourceNotFound):
        in_place.request_import(actor=ROOT, dataset=dataset, source="nfs", prefix="set")
    own = [str(folder.parent), f"{folder.parent}/store/datasets"]
    for location in (*own, "relative", "/does/not/exist", "s3://lake?endpoint=foo"):
        with pytest.raises(InvalidSource):
            sources.set_source(actor=ROOT, name="wide", location=location)
    assert not InPlaceImport.objects.exists()


def test_a_lost_database_comes_back_with_what_lies_in_sources(source, folder, dataset, member, store_row):
    row = import_files(member, dataset)
    records.write_records()
    before = (row.commit_id, Pack.objects.get().sha256, source.pk, source.location)
    (report,) = store_checks.check_store(open_store(store_row), Level.PACKS)
    assert not report.damages
    lose_database()

    (result,) = rebuilds.rebuild_store(store_row)

    again, pack = FileSource.objects.get(), Pack.objects.get()
    assert (result.commits, result.error) == (1, "")
    assert (Branch.objects.get().head_id, pack.sha256, again.pk, again.location) == before
    assert (pack.origin.state, list(again.projects.all())) == ("referenced", [])
    rebuilt = Dataset.objects.get()
    assert clone(rebuilt, Branch.objects.get().head, folder.parent / "clone") == FILES
    (folder / "set/c.txt").unlink()
    (report,) = store_checks.check_store(open_store(store_row), Level.PACKS)
    assert [(damage.key, damage.files) for damage in report.damages] == [(pack_key(pack.sha256), [b"c.txt"])]


def test_a_folder_that_no_commit_can_hold_is_left_out_with_the_reason(source, folder, dataset, member):
    with deep_folder(folder / "set" / "deep", 1100):
        row = import_files(member, dataset)

    assert row.files == len(FILES) + 255
    assert len(row.skipped) == 2
    assert all("has more than 256 components" in line for line in row.skipped)
