"""The client against a real S3 server: addresses that came too late are asked for anew, and bodies are proven."""

import base64
import hashlib
from datetime import timedelta

import pytest

from core import clock
from datasets.adapters.s3 import S3Store
from datasets.engine.ports import Announcement, PutProof
from nearline._http import Http
from nearline.content.hashing import file_id
from nearline.content.retry import RetryPolicy
from nearline.errors import Denied
from nearline.transfer.remote.objects import ObjectReader
from nearline.transfer.remote.packing import KnownContent, PackSender, Upload, put_objects
from nearline.transfer.remote.retry import classify
from nearline.transfer.remote.server import ObjectKind, OfferAnswer, SignedRequest, UploadSession
from tests.contracts.datasets.test_s3_store import ACCESS_KEY, SECRET_KEY, location  # noqa: F401 (a fixture)

RETRIES = RetryPolicy(classify, sleep=lambda _: None)
LONG_AGO = timedelta(minutes=10)


class LateServer:
    """Signs with an S3 store; the first so many addresses were good for one second, long ago."""

    def __init__(self, store, *, late):
        self.store = store
        self.late = late
        self.signed = []
        self.confirmed = []
        self.http = Http("http://127.0.0.1:1", token="never sent")

    def start_upload(self, branch, client_id):
        is_weak = self.store.put_proof == PutProof.CONTENT_MD5
        return UploadSession("upload", branch, None, None, needs_md5=is_weak)

    def offer_packs(self, upload_id, packs):
        return [OfferAnswer(offer.id, self.sign("sign_put", offer.id, self.announce(offer))) for offer in packs]

    offer_manifests = offer_packs

    def complete_packs(self, upload_id, packs):
        self.confirmed += packs

    def sign_downloads(self, objects):
        return [self.sign("sign_get", name) for _, name in objects]

    def send(self, request, body):
        self.http.send_signed(request.method, request.url, request.headers, body)

    def receive(self, request, allocate, byte_range=None):
        return self.http.receive_signed(request.method, request.url, request.headers, allocate, byte_range=byte_range)

    def announce(self, offer):
        return Announcement(offer.size_bytes, offer.sha256, offer.md5)

    def sign(self, method, name, *body):
        is_late = len(self.signed) < self.late
        self.signed.append(name)
        now, lifetime_s = (clock.now() - LONG_AGO, 1) if is_late else (clock.now(), 900)
        signed = getattr(self.store, method)(f"packs/{name}", *body, now=now, lifetime_s=lifetime_s)
        return SignedRequest(signed.method, signed.url, dict(signed.headers))


@pytest.fixture
def make_server(location):  # noqa: F811 (a fixture is taken by its name)
    def make(*, late, put_proof=PutProof.CHECKSUM_SHA256):
        store = S3Store(location, access_key=ACCESS_KEY, secret_key=SECRET_KEY, put_proof=put_proof)
        return LateServer(store, late=late)

    return make


def send_pack(server, content):
    upload = Upload(lambda: server.start_upload("main", "test"))
    with PackSender(server, upload, KnownContent(), threads=1, policy=RETRIES) as sender:
        sender.add(file_id(content), content)
        sender.finish()
    return server.confirmed


@pytest.mark.parametrize("put_proof", [PutProof.CHECKSUM_SHA256, PutProof.CONTENT_MD5])
def test_a_pack_whose_address_expired_is_sent_to_a_new_one(make_server, put_proof):
    late = make_server(late=1, put_proof=put_proof)

    (name,) = send_pack(late, b"content")

    assert late.signed == [name, name]
    assert hashlib.sha256(late.store.get(f"packs/{name}")).hexdigest() == name


def test_a_manifest_whose_address_expired_is_sent_to_a_new_one(make_server):
    late = make_server(late=1)
    offer = Upload(lambda: late.start_upload("main", "test")).offer(ObjectKind.RANGE, "r" * 64, b"range")

    put_objects(late, "upload", [(offer, b"range")], RETRIES, threads=1)

    assert late.signed == ["r" * 64] * 2
    assert late.store.get("packs/" + "r" * 64) == b"range"


def test_an_object_whose_address_expired_is_read_from_a_new_one(make_server):
    late = make_server(late=1)
    late.store.put("packs/abc", b"whole object")
    reader = ObjectReader(late, RETRIES)

    assert reader.read((ObjectKind.PACK, "abc"), bytes) == b"whole object"
    assert reader.read((ObjectKind.PACK, "abc"), bytes, (6, 3)) == b"obj"
    assert late.signed == ["abc", "abc"]


def test_a_store_for_which_every_address_is_late_ends_in_a_sentence(make_server):
    late = make_server(late=100)

    with pytest.raises(Denied, match="expired") as caught:
        send_pack(late, b"content")

    assert caught.value.code == "datasets.signature_expired"
    assert "clocks" in caught.value.hint
    assert len(late.signed) == RETRIES.max_attempts


def test_other_bytes_than_were_announced_by_their_md5_are_refused_by_the_store(make_server):
    strict = make_server(late=0, put_proof=PutProof.CONTENT_MD5)
    offer = Upload(lambda: strict.start_upload("main", "test")).offer(ObjectKind.RANGE, "m" * 64, b"right")
    (answer,) = strict.offer_manifests("upload", [offer])

    with pytest.raises(Exception, match="BadDigest"):
        strict.send(answer.request, b"wrong")

    assert offer.md5 == base64.b64encode(hashlib.md5(b"right").digest()).decode()
    assert strict.store.stat("packs/" + "m" * 64) is None
