"""What is asked of every source of files, of a folder and of a bucket on a real S3 server."""

import boto3
import pytest

from accounts.permissions import Actor
from datasets.adapters.opening import open_dataset_store, open_source
from datasets.engine.layout import pack_key
from datasets.errors import InvalidSource, SourceFileChanged, SourceFileMissing, SourceUnreachable
from datasets.models import FileSource, Pack
from datasets.services import in_place, sources, stores
from datasets.workers import in_place as worker
from tests import services
from tests.contracts.datasets.test_s3_store import ACCESS_KEY, SECRET_KEY
from tests.factories.datasets import make_dataset

ROOT = Actor.system("test")
FILES = {"set/a/one.bin": b"one", "set/two é.bin": b"two" * 5, "other.bin": b"other"}


@pytest.fixture
def bucket(server, request):
    """Return the address of a part of a bucket, and a function that puts an object there, or removes it."""
    prefix = f"part-{abs(hash(request.node.nodeid))}"
    keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
    client = boto3.client("s3", endpoint_url=server, region_name="us-east-1", **keys)

    def put(name, content):
        at = {"Bucket": services.BUCKET, "Key": f"{prefix}/{name}"}
        client.delete_object(**at) if content is None else client.put_object(**at, Body=content)

    return f"s3://{services.BUCKET}/{prefix}?endpoint={server}", put


@pytest.fixture(params=["folder", "bucket"])
def place(request, tmp_path, db):
    """Return a source with the files in it, and a function that changes one of them, or removes it."""
    if request.param == "bucket":
        location, put = request.getfixturevalue("bucket")
        keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
    else:
        location, keys = str(tmp_path / "files"), {}

        def put(name, content):
            path = tmp_path / "files" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink() if content is None else path.write_bytes(content)

    for name, content in FILES.items():
        put(name, content)
    return open_source(sources.set_source(actor=ROOT, name="place", location=location, **keys)), put


def test_files_below_a_folder_are_listed_and_read(place):
    source, _ = place

    found = {file.path.decode(): file for file in source.list_files(b"set")}

    assert {name: file.size_bytes for name, file in found.items()} == {"set/a/one.bin": 3, "set/two é.bin": 15}
    with source.open(found["set/two é.bin"]) as stream:
        assert stream.read() == FILES["set/two é.bin"]
    assert source.read("set/two é.bin".encode(), 2, 2) == b"ot"
    assert source.read("set/two é.bin".encode(), 13, 9) == b"wo"
    assert source.read("set/two é.bin".encode(), 99, 9) == b""


def test_what_is_missing_or_was_written_to_is_told(place):
    source, put = place
    (found,) = source.list_files(b"set/a")

    put("set/a/one.bin", b"1")
    with (
        pytest.raises(SourceFileChanged, match=r"'set/a/one.bin' in the source 'place' changed while"),
        source.open(found),
    ):
        pass
    put("set/a/one.bin", None)
    with pytest.raises(SourceFileMissing, match=r"'set/a/one.bin' is not in the source 'place'"):
        source.read(b"set/a/one.bin", 0, 3)
    with pytest.raises(SourceFileMissing):
        list(source.list_files(b"nowhere"))


def test_a_part_of_the_stores_own_bucket_is_referred_to_and_promoted(server, bucket, db, member, project):
    location, put = bucket
    own = f"s3://{services.BUCKET}/own?endpoint={server}"
    stores.register_s3_store(actor=ROOT, name="s3", location=own, access_key=ACCESS_KEY, secret_key=SECRET_KEY)
    for name, content in FILES.items():
        put(name, content)
    # Its keys are those of the store.
    source = sources.set_source(actor=ROOT, name="prefix", location=location, projects=[project])
    assert ACCESS_KEY.encode() not in bytes(source.credentials)
    for wide in (
        f"s3://{services.BUCKET}?endpoint={server}",
        f"s3://{services.BUCKET}/own/datasets/x?endpoint={server}",
    ):
        with pytest.raises(InvalidSource, match="keeps of datasets"):
            sources.set_source(actor=ROOT, name="wide", location=wide)
    dataset = make_dataset(member, project)

    row = in_place.request_import(actor=member, dataset=dataset, source="prefix", prefix="set")
    worker.work_on(row.pk)
    row.refresh_from_db()

    assert (row.state, row.error, row.files, row.read_bytes) == ("referenced", "", 2, 18)
    pack = Pack.objects.get()
    data = open_dataset_store(dataset).get(pack_key(pack.sha256))
    in_place.promote(actor=member, row=row)
    worker.work_on(row.pk)
    put("set/a/one.bin", b"changed")
    assert open_dataset_store(dataset).get(pack_key(pack.sha256)) == data
    assert Pack.objects.get().origin is None


def test_a_bucket_that_is_away_or_whose_keys_are_not_known_is_unreachable(db):
    gone = FileSource(name="gone", kind="s3", location="s3://bucket?endpoint=http://127.0.0.1:9")
    with pytest.raises(SourceUnreachable, match="keys of the source 'gone' are not known"):
        open_source(gone)
    keys = {"access_key": "a", "secret_key": "b"}
    with pytest.raises(InvalidSource, match="The source 'gone' cannot be read"):
        sources.set_source(actor=ROOT, name="gone", location=gone.location, **keys)


@pytest.mark.parametrize(
    ("name", "secret_key", "words"),
    [(services.BUCKET, "wrong", "its secret key is wrong"), ("no-such-bucket", SECRET_KEY, "there is no such bucket")],
)
def test_a_bucket_that_refuses_is_not_kept_and_says_why(name, secret_key, words, server, db):
    location = f"s3://{name}/part?endpoint={server}"

    with pytest.raises(InvalidSource) as error:
        sources.set_source(actor=ROOT, name="place", location=location, access_key=ACCESS_KEY, secret_key=secret_key)

    assert error.value.message == f"The source 'place' cannot be read: {words}."
    assert not FileSource.objects.exists()
