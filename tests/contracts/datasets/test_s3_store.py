"""The S3 store against a real S3 server."""

import io

import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber

from core import clock
from datasets.adapters.opening import open_store
from datasets.adapters.s3 import S3Location, S3Store, classify
from datasets.adapters.s3_report import probe_put_proof
from datasets.engine.ports import Announcement, PutProof
from datasets.errors import InvalidStore, StoreUnreachable
from datasets.models import Store
from datasets.selectors.files import open_file
from datasets.services import stores, uploads
from datasets.services.uploads import ObjectKind, Offer
from nearline.content.retry import RetryPolicy
from tests import services
from tests.contracts.blob_store import BlobStoreContract
from tests.factories.datasets import PackedTree, commit_files, make_dataset

ACCESS_KEY, SECRET_KEY = "test-access", "test-secret-key"


@pytest.fixture
def location(server, request):
    prefix = f"case-{abs(hash(request.node.nodeid))}"
    return S3Location.parse(f"s3://{services.BUCKET}/{prefix}?endpoint={server}")


@pytest.fixture
def store(location):
    return S3Store(location, access_key=ACCESS_KEY, secret_key=SECRET_KEY, put_proof=PutProof.CHECKSUM_SHA256)


class TestS3Store(BlobStoreContract):
    pass


class TestS3StoreProvenByMd5(BlobStoreContract):
    @pytest.fixture
    def store(self, location):
        return S3Store(location, access_key=ACCESS_KEY, secret_key=SECRET_KEY, put_proof=PutProof.CONTENT_MD5)


def test_the_probe_finds_the_strongest_proof_that_the_server_enforces(location):
    proof = probe_put_proof(location, access_key=ACCESS_KEY, secret_key=SECRET_KEY, now=clock.now())

    assert proof == PutProof.CHECKSUM_SHA256


def test_the_probe_leaves_nothing_behind(location, store):
    probe_put_proof(location, access_key=ACCESS_KEY, secret_key=SECRET_KEY, now=clock.now())

    assert list(store.list_blobs("")) == []


def test_the_probe_says_that_keys_are_wrong(location):
    with pytest.raises(InvalidStore):
        probe_put_proof(location, access_key=ACCESS_KEY, secret_key="wrong", now=clock.now())


def test_a_server_that_is_away_is_unreachable():
    location = S3Location.parse("s3://bucket?endpoint=http://127.0.0.1:1")

    with pytest.raises(StoreUnreachable):
        probe_put_proof(location, access_key=ACCESS_KEY, secret_key=SECRET_KEY, now=clock.now())


@pytest.mark.parametrize(
    "url",
    [
        "http://bucket/",
        "s3://",
        "s3://bucket?endpoint=ftp://x",
        "s3://bucket?endpoint=http://name:password@host",
        "s3://bucket?region=eu%23@elsewhere",
        "s3://bucket/a/../b",
        "s3://bucket?acl=public",
    ],
)
def test_an_address_that_makes_no_sense_is_refused(url):
    with pytest.raises(InvalidStore):
        S3Location.parse(url)


@pytest.mark.django_db
def test_a_bucket_is_registered_with_what_its_server_was_seen_to_do(server, site_admin):
    location = f"s3://{services.BUCKET}/registered?endpoint={server}&region=us-east-1"
    keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}

    row = stores.register_s3_store(actor=site_admin, name="grid", location=location, **keys)
    opened = open_store(row)
    opened.put("packs/a", b"x")

    assert (row.kind, row.put_proof, row.is_default) == ("s3", "checksum-sha256", True)
    assert SECRET_KEY.encode() not in bytes(row.credentials)
    assert opened.get("packs/a") == b"x"


@pytest.mark.django_db
def test_a_bucket_that_refuses_us_is_not_registered(server, site_admin):
    with pytest.raises(InvalidStore):
        stores.register_s3_store(
            actor=site_admin,
            name="grid",
            location=f"s3://no-such-bucket?endpoint={server}",
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
        )

    assert not Store.objects.exists()


@pytest.mark.django_db
def test_a_dataset_lives_in_a_bucket_from_upload_to_reading(server, send, member, project, site_admin):
    stores.register_s3_store(
        actor=site_admin,
        name="grid",
        location=f"s3://{services.BUCKET}/whole?endpoint={server}",
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
    )
    dataset = make_dataset(member, project)
    files = {f"{number:03}": str(number).encode() * 100 for number in range(100)}
    tree = PackedTree(files)
    upload = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="test").upload
    offers = [Offer(ObjectKind.PACK, name, Announcement(len(data), name)) for name, data in tree.packs.items()]

    for answer in uploads.offer_packs(actor=member, upload=upload, offers=offers):
        assert send(answer.request, tree.packs[answer.id])[0]
    commit = commit_files(member, dataset, files)

    assert dataset.packs.get().state == "complete"
    assert b"".join(open_file(member, commit, path=b"042").read()) == b"42" * 100


def test_a_large_deletion_is_done_in_parts(store):
    keys = [f"many/{number:04}" for number in range(1100)]
    for key in keys[::100]:
        store.put(key, b"x")

    store.delete(iter(keys))

    assert list(store.list_blobs("many/")) == []


def test_clocks_that_differ_are_told_in_a_sentence(store):
    with Stubber(store._client) as answers:
        answers.add_client_error("head_object", "RequestTimeTooSkewed", http_status_code=403)

        with pytest.raises(StoreUnreachable, match="clock"):
            store.stat("packs/a")


def trying(location, waits):
    policy = RetryPolicy(classify, max_attempts=5, sleep=waits.append, jitter=lambda: 1.0)
    return S3Store(
        location, access_key=ACCESS_KEY, secret_key=SECRET_KEY, put_proof=PutProof.CHECKSUM_SHA256, policy=policy
    )


def test_a_storm_of_refusals_and_a_body_that_breaks_off_are_outlasted(location):
    waits = []
    store = trying(location, waits)
    with Stubber(store._client) as answers:
        answers.add_client_error("get_object", "SlowDown", http_status_code=503)
        answers.add_client_error("get_object", "InternalError", http_status_code=500)
        answers.add_response("get_object", {"Body": StreamingBody(io.BytesIO(b"who"), 5)})
        answers.add_response("get_object", {"Body": StreamingBody(io.BytesIO(b"whole"), 5)})

        assert store.get_range("packs/a", 0, 5) == b"whole"

    assert waits == [0.5, 1.0, 2.0]


def test_a_store_that_stays_busy_is_given_up_after_five_attempts(location):
    waits = []
    store = trying(location, waits)
    with Stubber(store._client) as answers:
        for _ in range(5):
            answers.add_client_error("get_object", "SlowDown", http_status_code=503)

        with pytest.raises(StoreUnreachable, match="SlowDown"):
            store.get("packs/a")

        answers.assert_no_pending_responses()
    assert len(waits) == 4


def test_a_listing_goes_on_where_a_page_failed(location):
    store = trying(location, [])
    first = {
        "Contents": [{"Key": f"{location.prefix}a/1", "Size": 1}],
        "IsTruncated": True,
        "NextContinuationToken": "n",
    }
    with Stubber(store._client) as answers:
        answers.add_response("list_objects_v2", first)
        answers.add_client_error("list_objects_v2", "SlowDown", http_status_code=503)
        answers.add_response("list_objects_v2", {"Contents": [{"Key": f"{location.prefix}a/2", "Size": 2}]})

        assert [(blob.key, blob.size_bytes) for blob in store.list_blobs("a/")] == [("a/1", 1), ("a/2", 2)]


@pytest.mark.parametrize("bucket", ["my bucket", "b$cket", "-bucket", "büro"])
def test_a_name_that_no_bucket_can_have_is_a_sentence(bucket):
    with pytest.raises(InvalidStore, match="cannot be the name of a bucket"):
        S3Location.parse(f"s3://{bucket}/prefix?endpoint=http://127.0.0.1:1")
