"""A bucket that was moved: the installation is pointed at the copy once it proved to be one."""

import re
from dataclasses import replace
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from accounts.permissions import Actor
from datasets.adapters.opening import open_dataset_store, open_store
from datasets.adapters.s3 import S3Location, S3Store
from datasets.engine.layout import pack_key
from datasets.engine.ports import PutProof
from datasets.models import Dataset, Pack, Store
from datasets.services import stores, trees
from datasets.workers import records
from tests import services
from tests.contracts.datasets.test_s3_store import ACCESS_KEY, SECRET_KEY
from tests.factories.datasets import commit_files, make_dataset, source_files

pytestmark = pytest.mark.django_db
SYSTEM = Actor.system("test")
NAME = f"s3://{services.BUCKET}"


@pytest.fixture
def use(server, settings, request):
    """Have the settings name a prefix of the bucket."""

    def use(prefix: str) -> str:
        prefix = f"{request.node.name}-{prefix}"
        url = f"{NAME}/{prefix}?endpoint={server}"
        settings.NEARLINE = replace(
            settings.NEARLINE, store_url=url, store_access_key=ACCESS_KEY, store_secret_key=SECRET_KEY
        )
        return f"{NAME}/{prefix}"

    return use


@pytest.fixture
def store(use, member, project) -> Store:
    use("old")
    store = stores.ensure_default_store(actor=SYSTEM)
    commit_files(member, make_dataset(member, project, "xrays"), {"a.txt": b"one", "b.txt": b"two"})
    trees.store_tree(actor=member, project=project, holder="job", files=source_files({"model": b"weights"}))
    records.write_records()
    return store


def copy_objects(store: Store, settings) -> S3Store:
    """Copy what a store holds to the place that the settings name, as any tool does."""
    source = open_store(store)
    copy = S3Store(
        S3Location.parse(settings.NEARLINE.store_url),
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        put_proof=PutProof.NONE,
    )
    for blob in source.list_blobs("datasets/"):
        copy.put(blob.key, source.get(blob.key))
    return copy


def move(name: str, *options: str) -> str:
    output = StringIO()
    call_command("move_store", name, *options, stdout=output)
    return output.getvalue()


def test_a_copy_is_used_once_it_is_complete(store, use, settings):
    name = use("new")
    copy_objects(store, settings)

    looked = move(store.name)
    assert "Nothing is missing." in looked
    assert Store.objects.get().location == store.location

    assert "used from now on" in move(store.name, "--yes")

    moved = Store.objects.get()
    assert (moved.pk, moved.name, moved.is_default) == (store.pk, name, True)
    assert stores.ensure_default_store(actor=SYSTEM).pk == store.pk
    xrays = Dataset.objects.get(name="xrays")
    assert open_dataset_store(xrays).stat(pack_key(Pack.objects.get(dataset=xrays).sha256)) is not None


def test_what_lacks_an_object_is_refused_and_named(store, use, settings):
    use("lacking")
    copy = copy_objects(store, settings)
    pack = Pack.objects.filter(dataset__name="xrays").get()
    key = f"datasets/{pack.dataset_id}/{pack_key(pack.sha256)}"
    copy.delete([key])
    output = StringIO()

    with pytest.raises(CommandError, match="1 object missing"):
        call_command("move_store", store.name, "--yes", stdout=output)

    assert f"  {key} is missing" in output.getvalue()
    assert Store.objects.get().location == store.location


def test_a_store_that_setup_made_of_the_copy_gives_way_while_it_is_empty(store, use, settings, member, project):
    name = use("again")
    copy_objects(store, settings)
    stores.ensure_default_store(actor=SYSTEM)

    move(store.name, "--yes")
    assert list(Store.objects.values_list("pk", "name", "is_default")) == [(store.pk, name, True)]

    use("third")
    copy_objects(Store.objects.get(), settings)
    stores.ensure_default_store(actor=SYSTEM)
    make_dataset(member, project, "new")
    with pytest.raises(CommandError, match="Datasets were made in"):
        move(name, "--yes")
    assert Store.objects.get(pk=store.pk).name == name


def test_only_another_bucket_is_moved_to(store, use):
    with pytest.raises(CommandError, match="set it to the copy's address"):
        move(store.name)
    with pytest.raises(CommandError, match=re.escape(f"There are: {store.name}.")):
        move("s3://nowhere")
