"""What every object store must do. Each adapter's test module inherits this class and gives it a store and a sender."""

import base64
import hashlib
from datetime import timedelta

import pytest

from core import clock
from datasets.engine.ports import Announcement, BlobStat, BlobStore, SignedRequest
from datasets.errors import BlobMissing, ContentCorrupt

BODY = b"the quick brown fox jumps over the lazy dog"
LIFETIME_S = 900


def announce(data: bytes) -> Announcement:
    md5 = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
    return Announcement(len(data), hashlib.sha256(data).hexdigest(), md5)


class BlobStoreContract:
    """Subclasses define the fixtures `store` and `send`; the latter maps a request and a body to (is accepted, bytes)."""

    def test_what_was_put_is_got_back(self, store: BlobStore):
        store.put("packs/ab/abc", BODY)

        assert store.get("packs/ab/abc") == BODY

    def test_putting_again_replaces(self, store: BlobStore):
        store.put("roots/a", b"before")
        store.put("roots/a", BODY)

        assert store.get("roots/a") == BODY

    def test_an_empty_object_can_be_kept(self, store: BlobStore):
        store.put("roots/empty", b"")

        assert store.get("roots/empty") == b""
        assert store.stat("roots/empty") == BlobStat("roots/empty", 0)

    def test_a_missing_object_is_named(self, store: BlobStore):
        with pytest.raises(BlobMissing, match="roots/none"):
            store.get("roots/none")
        with pytest.raises(BlobMissing, match="roots/none"):
            store.get_range("roots/none", 0, 1)

    def test_a_range_is_exactly_the_bytes_asked_for(self, store: BlobStore):
        store.put("packs/a", BODY)

        assert store.get_range("packs/a", 4, 5) == b"quick"
        assert store.get_range("packs/a", len(BODY) - 3, 3) == b"dog"

    @pytest.mark.parametrize("offset", [len(BODY) - 1, len(BODY), len(BODY) + 5])
    def test_a_range_past_the_end_is_an_error_and_never_short(self, store: BlobStore, offset):
        store.put("packs/a", BODY)

        with pytest.raises(ContentCorrupt):
            store.get_range("packs/a", offset, 2)

    def test_stat_tells_the_size_and_none_when_there_is_nothing(self, store: BlobStore):
        store.put("packs/a", BODY)

        assert store.stat("packs/a") == BlobStat("packs/a", len(BODY))
        assert store.stat("packs/b") is None
        assert store.stat("packs/a/b") is None

    def test_list_yields_what_lies_under_the_prefix_in_order_of_keys(self, store: BlobStore):
        for key in ("r/b/x", "r/a.b", "r/a/z", "r/a/y", "s/a", "r/b-c"):
            store.put(key, key.encode())

        assert [blob.key for blob in store.list_blobs("r/")] == ["r/a.b", "r/a/y", "r/a/z", "r/b-c", "r/b/x"]
        assert [blob.key for blob in store.list_blobs("r/a/")] == ["r/a/y", "r/a/z"]
        assert list(store.list_blobs("none/")) == []
        assert BlobStat("s/a", 3) in list(store.list_blobs(""))

    def test_delete_removes_the_named_and_forgives_the_missing(self, store: BlobStore):
        store.put("packs/a", BODY)
        store.put("packs/b", BODY)

        store.delete(["packs/a", "packs/never"])

        assert store.stat("packs/a") is None
        assert store.get("packs/b") == BODY

    @pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/../b", ".a", "a/.b", "a\\b", "a b", "a\n", "ä"])
    def test_a_text_that_is_no_key_is_refused(self, store: BlobStore, key):
        with pytest.raises(ValueError):
            store.put(key, BODY)
        with pytest.raises(ValueError):
            store.get(key)
        with pytest.raises(ValueError):
            store.sign_get(key, now=clock.now(), lifetime_s=LIFETIME_S)

    def test_a_signed_put_stores_the_announced_body(self, store: BlobStore, send):
        request = store.sign_put("packs/a", announce(BODY), now=clock.now(), lifetime_s=LIFETIME_S)

        accepted, _ = send(request, BODY)

        assert accepted
        assert store.get("packs/a") == BODY

    def test_a_signed_put_may_be_repeated(self, store: BlobStore, send):
        request = store.sign_put("packs/a", announce(BODY), now=clock.now(), lifetime_s=LIFETIME_S)

        assert [send(request, BODY)[0], send(request, BODY)[0]] == [True, True]

    def test_a_signed_put_names_its_method_and_its_end(self, store: BlobStore):
        now = clock.now()

        request = store.sign_put("packs/a", announce(BODY), now=now, lifetime_s=LIFETIME_S)

        assert request.method == "PUT"
        assert request.headers["Content-Length"] == str(len(BODY))
        assert request.expires_at == now + timedelta(seconds=LIFETIME_S)

    @pytest.mark.parametrize("body", [BODY + b"!", BODY[:-1], b""])
    def test_a_body_of_another_length_is_refused(self, store: BlobStore, send, body):
        request = store.sign_put("packs/a", announce(BODY), now=clock.now(), lifetime_s=LIFETIME_S)

        accepted, _ = send(request, body)

        assert not accepted
        assert store.stat("packs/a") is None

    def test_other_bytes_of_the_same_length_are_refused(self, store: BlobStore, send):
        request = store.sign_put("packs/a", announce(BODY), now=clock.now(), lifetime_s=LIFETIME_S)

        accepted, _ = send(request, BODY[::-1])

        assert not accepted
        assert store.stat("packs/a") is None

    def test_a_signed_put_is_refused_after_its_time(self, store: BlobStore, send):
        long_ago = clock.now() - timedelta(seconds=LIFETIME_S + 60)
        request = store.sign_put("packs/a", announce(BODY), now=long_ago, lifetime_s=LIFETIME_S)

        accepted, _ = send(request, BODY)

        assert not accepted
        assert store.stat("packs/a") is None

    def test_a_signed_get_reads_the_object_and_is_refused_after_its_time(self, store: BlobStore, send):
        store.put("packs/a", BODY)
        long_ago = clock.now() - timedelta(seconds=LIFETIME_S + 60)

        timely = send(store.sign_get("packs/a", now=clock.now(), lifetime_s=LIFETIME_S), b"")
        late = send(store.sign_get("packs/a", now=long_ago, lifetime_s=LIFETIME_S), b"")

        assert timely == (True, BODY)
        assert not late[0]

    def test_a_signature_for_get_does_not_allow_put(self, store: BlobStore, send):
        store.put("packs/a", BODY)
        request = store.sign_get("packs/a", now=clock.now(), lifetime_s=LIFETIME_S)

        accepted, _ = send(SignedRequest("PUT", request.url, request.headers, request.expires_at), b"other")

        assert not accepted
        assert store.get("packs/a") == BODY

    def test_a_signature_for_put_does_not_allow_get(self, store: BlobStore, send):
        store.put("packs/a", BODY)
        request = store.sign_put("packs/a", announce(BODY), now=clock.now(), lifetime_s=LIFETIME_S)

        accepted, _ = send(SignedRequest("GET", request.url, {}, request.expires_at), b"")

        assert not accepted

    def test_a_signature_for_one_key_does_not_open_another(self, store: BlobStore, send):
        store.put("packs/mine", BODY)
        store.put("packs/theirs", b"a secret")
        mine = store.sign_get("packs/mine", now=clock.now(), lifetime_s=LIFETIME_S)

        accepted, data = send(SignedRequest("GET", self.other_key(mine.url), {}, mine.expires_at), b"")

        assert not accepted
        assert data != b"a secret"

    def other_key(self, url: str) -> str:
        """Return the address with the key changed from packs/mine to packs/theirs."""
        return url.replace("packs/mine", "packs/theirs")
