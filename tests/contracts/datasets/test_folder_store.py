"""The folder store, its signed addresses being served by the web process's view."""

import shutil
from pathlib import Path

import pytest
from django.http import StreamingHttpResponse
from django.test import RequestFactory

from accounts.permissions import Actor
from core import clock
from core.errors import PlatformError
from datasets.adapters import folder_marks
from datasets.adapters.opening import open_store
from datasets.engine.ports import Announcement
from datasets.errors import BodyRefused, StoreUnreachable
from datasets.services import stores
from datasets.web import store_views
from tests.contracts.blob_store import BODY, LIFETIME_S, BlobStoreContract, announce


@pytest.fixture
def row(db, tmp_path):
    return stores.register_folder_store(actor=Actor.system("test"), name="folder", folder=tmp_path / "store")


@pytest.fixture
def store(row):
    return open_store(row)


@pytest.fixture
def send(row):
    def answer(request, body):
        signed = request.url.rsplit("/store/", 1)[1]
        headers = {key: value for key, value in request.headers.items() if key != "Content-Length"}
        made = RequestFactory().generic(
            request.method, f"/store/{signed}", data=body, content_type="application/octet-stream", headers=headers
        )
        try:
            response = store_views.store_object(made, signed)
        except PlatformError:
            return False, b""
        data = b"".join(response) if isinstance(response, StreamingHttpResponse) else response.content
        return response.status_code < 300, data

    return answer


def names_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


class TestFolderStore(BlobStoreContract):
    def other_key(self, url):
        signed = url.rsplit("/", 1)[1]
        # The key lies inside the sealed text: any change of it breaks the seal.
        return url.replace(signed, ("A" if signed[0] != "A" else "B") + signed[1:])

    @pytest.mark.parametrize("place", ["nothing", "empty", "another store"])
    def test_a_folder_that_is_away_is_no_lost_object_and_nothing_is_written_in_its_place(self, store, tmp_path, place):
        store.put("packs/a", BODY)
        begun = store.open_put("packs/begun", announce(BODY))
        begun.write(BODY)
        (tmp_path / "store").rename(tmp_path / "away")
        if place != "nothing":
            (tmp_path / "store").mkdir()
        if place == "another store":
            folder_marks.ensure_mark(tmp_path / "store", folder_marks.STORE_MARK)
        names = names_below(tmp_path / "store")

        for ask in (
            lambda: store.put("packs/b", BODY),
            lambda: store.get("packs/a"),
            lambda: store.get_range("packs/a", 0, 1),
            lambda: store.stat("packs/a"),
            lambda: list(store.list_blobs("packs/")),
            lambda: store.delete(["packs/a"]),
            lambda: store.sweep(before=clock.now()),
            begun.finish,
        ):
            with pytest.raises(StoreUnreachable, match="Is its disk mounted"):
                ask()
        begun.discard()

        assert names_below(tmp_path / "store") == names
        shutil.rmtree(tmp_path / "store", ignore_errors=True)
        (tmp_path / "away").rename(tmp_path / "store")
        assert store.get("packs/a") == BODY
        assert [blob.key for blob in store.list_blobs("")] == ["packs/a"]

    def test_what_goes_away_while_it_is_listed_is_not_all_that_there_is(self, store, tmp_path):
        store.put("packs/a", BODY)
        store.put("roots/b", BODY)
        blobs = store.list_blobs("")
        next(blobs)
        (tmp_path / "store").rename(tmp_path / "away")
        (tmp_path / "store").mkdir()

        with pytest.raises(StoreUnreachable):
            list(blobs)

    def test_a_mark_that_another_process_wrote_anew_is_read_again(self, store, tmp_path):
        mark = folder_marks.read_mark(tmp_path / "store", folder_marks.STORE_MARK)
        store.put("packs/a", BODY)
        (tmp_path / "store" / folder_marks.STORE_MARK).unlink()
        with pytest.raises(StoreUnreachable):
            store.get("packs/a")

        (tmp_path / "store" / folder_marks.STORE_MARK).write_text(mark)

        assert store.get("packs/a") == BODY

    def test_nothing_unfinished_stays_behind_a_refused_body(self, store, tmp_path):
        wrong = Announcement(len(BODY), "0" * 64)

        with pytest.raises(BodyRefused):
            store.receive("packs/a", [BODY], wrong)

        assert names_below(tmp_path / "store") == [folder_marks.STORE_MARK, ".unfinished"]

    def test_a_body_is_cut_off_at_its_announced_length(self, store):
        taken = []

        def endless():
            while True:
                taken.append(1)
                yield BODY

        with pytest.raises(BodyRefused):
            store.receive("packs/a", endless(), announce(BODY))

        assert len(taken) == 2

    def test_a_part_of_an_object_can_be_asked_for(self, store):
        store.put("packs/a", BODY)
        signed = store.sign_get("packs/a", now=clock.now(), lifetime_s=LIFETIME_S).url.rsplit("/", 1)[1]

        response = store_views.store_object(RequestFactory().get("/", headers={"Range": "bytes=4-8"}), signed)

        assert response.status_code == 206
        assert response["Content-Range"] == f"bytes 4-8/{len(BODY)}"
        assert b"".join(response) == b"quick"

    def test_a_part_outside_the_object_is_refused(self, store):
        store.put("packs/a", BODY)
        signed = store.sign_get("packs/a", now=clock.now(), lifetime_s=LIFETIME_S).url.rsplit("/", 1)[1]

        response = store_views.store_object(RequestFactory().get("/", headers={"Range": "bytes=500-"}), signed)

        assert response.status_code == 416
