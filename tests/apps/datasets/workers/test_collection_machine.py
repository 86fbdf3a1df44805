"""Uploads, commits, deletions, collections and crashes in any order: no commit ever loses a pack."""

import os
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from accounts.permissions import Role
from core import clock
from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import pack_key, range_key, root_key
from datasets.engine.ports import Announcement
from datasets.errors import (
    BlobMissing,
    ManifestRejected,
    PackLeaving,
    PackMissing,
    StaleParent,
    UploadClosed,
)
from datasets.models import Branch, CommitSource, PackState, UploadSession
from datasets.selectors import trees
from datasets.selectors.trees import TreeReader
from datasets.services import commits, datasets, manifests, uploads
from datasets.services.packs import RangesForgotten
from datasets.services.uploads import ObjectKind, Offer
from datasets.workers import collection, purges
from tests.factories.datasets import PackedTree, make_dataset
from tests.transactions import undone

START = datetime(2026, 1, 1, tzinfo=UTC)
_STEPS = 25
# Every file is a pack of its own; few files, so that uploads meet.
FILES = [{name: name.encode() for name in names} for names in ("a", "ab", "abc")]
WHOLE = [PackedTree(files, pack_bytes=1) for files in FILES]
TREES = st.sampled_from(WHOLE)
# A range may be a delta of that of any tree with one file less.
DELTAS = {
    tree.root_id: (base.root_id, PackedTree(files, pack_bytes=1, on=base).tree.objects)
    for base, tree, files in zip(WHOLE, WHOLE[1:], FILES[1:], strict=False)
}


class Client:
    """One upload as its client sees it."""

    def __init__(self, dataset, upload, tree):
        self.dataset = dataset
        self.upload = upload
        self.tree = tree
        self.signed = {}
        self.checked = None


class Machine(RuleBasedStateMachine):
    clients = Bundle("clients")
    workers = Bundle("workers")

    def __init__(self, project, member, admin):
        super().__init__()
        self.member, self.admin, self.project = member, admin, project
        self.now = START
        self.held = []
        self.block = undone()
        self.block.__enter__()

    def teardown(self):
        self.tick(timedelta(days=30))
        with clock.frozen_at(self.now):
            collection.expire_uploads()
            purges.purge_deleted()
            self.collect_everything()
            stored = {blob.key for blob in open_dataset_store(self.dataset).list_blobs("packs/")}
            assert stored == self.needed, "what nothing refers to leaves in the end, and nothing else"
        self.block.__exit__(None, None, None)

    def collect_everything(self):
        for _ in range(3):
            collection.collect()
            self.now += timedelta(days=10)
            with clock.frozen_at(self.now):
                collection.collect()

    @property
    def needed(self):
        return {pack_key(name) for tree in self.held for name in tree.packs}

    def note(self, client):
        if client.dataset == self.dataset:
            self.held.append(client.tree)

    def tick(self, step):
        self.now += step

    @initialize()
    def begin(self):
        with clock.frozen_at(self.now):
            self.dataset = make_dataset(self.member, self.project)

    @rule(target=clients, tree=TREES)
    def upload(self, tree):
        """All but the commit, at once."""
        dataset = self.dataset
        with clock.frozen_at(self.now):
            started = uploads.start_upload(actor=self.member, dataset=dataset, branch="main", client_id="x")
        client = Client(dataset, started.upload, tree)
        self.offer(client)
        self.send(client, is_delta=True)
        self.check(client)
        return client

    @rule(client=clients)
    def offer(self, client):
        offers = [
            Offer(ObjectKind.PACK, name, Announcement(len(data), name)) for name, data in client.tree.packs.items()
        ]
        with clock.frozen_at(self.now):
            try:
                answers = uploads.offer_packs(actor=self.member, upload=client.upload, offers=offers)
            except (PackLeaving, UploadClosed):
                return
        for answer in answers:
            if answer.request is not None:
                client.signed[answer.id] = answer.request.expires_at

    @rule(client=clients, is_delta=st.booleans())
    def send(self, client, is_delta):
        """Ranges come late too, whole or as deltas of what is committed, in place of what others sent and built on."""
        store = open_dataset_store(client.dataset)
        for name, expires_at in client.signed.items():
            if self.now < expires_at:
                store.put(pack_key(name), client.tree.packs[name])
        objects = client.tree.tree.objects
        base, deltas = DELTAS.get(client.tree.root_id, ("", objects))
        if is_delta and client.dataset == self.dataset and base in {tree.root_id for tree in self.held}:
            objects = deltas
        for range_id, data in objects.items():
            store.put(range_key(range_id), data)
        store.put(root_key(client.tree.root_id), client.tree.tree.root)
        with clock.frozen_at(self.now):
            try:
                uploads.confirm_packs(actor=self.member, upload=client.upload, names=list(client.tree.packs))
            except (PackMissing, PackLeaving, UploadClosed):
                return

    @rule(client=clients)
    def check(self, client):
        with clock.frozen_at(self.now):
            try:
                client.checked = manifests.check_tree(client.dataset, client.tree.root_id)
            except (PackMissing, ManifestRejected):
                client.checked = None

    @rule(client=clients)
    def land(self, client):
        """The second half of a commit, however long after the first."""
        if client.checked is None:
            return
        branch = Branch.objects.select_related("head").get(dataset=client.dataset, name="main")
        with clock.frozen_at(self.now):
            try:
                row = commits._describe(
                    self.member,
                    client.dataset,
                    client.tree.root_id,
                    client.checked,
                    parent=branch.head,
                    message="",
                    source=CommitSource.CLI,
                    idempotency_key="",
                )
                draft = commits._Draft(branch, branch.head_id, client.checked, row, client.upload)
                commits._land(self.member, draft)
            except (PackMissing, RangesForgotten, StaleParent):
                return
            except BlobMissing:
                assert client.dataset != self.dataset, "only of a dataset that was purged is the parent gone"
                return
        self.note(client)

    @rule(client=clients)
    def commit(self, client):
        head = Branch.objects.get(dataset=client.dataset, name="main").head_id
        client.upload = UploadSession.objects.select_related("dataset__store").get(pk=client.upload.pk)
        with clock.frozen_at(self.now):
            try:
                commits.commit_upload(
                    actor=self.member,
                    upload=client.upload,
                    root=client.tree.root_id,
                    expected_head=head,
                    message="",
                    source=CommitSource.CLI,
                    idempotency_key="",
                )
            except (PackMissing, PackLeaving, ManifestRejected, UploadClosed):
                return
        self.note(client)

    @rule(client=consumes(clients))
    def give_up(self, client):
        with clock.frozen_at(self.now):
            uploads.cancel_upload(actor=self.member, upload=client.upload)

    @rule(is_purged=st.booleans())
    def delete_dataset(self, is_purged):
        with clock.frozen_at(self.now):
            datasets.delete_dataset(actor=self.admin, dataset=self.dataset)
            if is_purged:
                purges.purge_deleted()
            self.dataset = make_dataset(self.member, self.project)
        self.held = []

    @rule()
    def collect(self):
        with clock.frozen_at(self.now):
            collection.collect(limit=3)

    @rule(target=workers)
    def take(self):
        with clock.frozen_at(self.now):
            taken = collection.take_due(limit=3)
        return taken or multiple()

    @rule(packs=consumes(workers), dies=st.booleans())
    def delete(self, packs, dies):
        """A worker deletes what it took, now or much later; or dies between the store and the database."""
        with clock.frozen_at(self.now):
            if not dies:
                collection.delete_packs(packs)
            elif all(self.now < pack.due_at - collection._LEASE / 2 for pack in packs):
                for pack in packs:
                    open_dataset_store(pack.dataset).delete([pack_key(pack.sha256)])

    @rule(step=st.sampled_from([timedelta(minutes=10), timedelta(minutes=40), timedelta(hours=25)]))
    def wait(self, step):
        self.tick(step)

    @rule()
    def grow_old(self):
        """What nobody touches from now on is due afterwards."""
        self.tick(timedelta(hours=25))
        with clock.frozen_at(self.now):
            collection.expire_uploads()
            collection.condemn_unreferenced()
        self.tick(timedelta(days=8))

    @invariant()
    def every_commit_can_be_read(self):
        trees.forget()
        for tree in self.held:
            assert list(TreeReader(self.dataset).list_entries(tree.root_id)) == tree.entries

    @invariant()
    def every_commit_has_its_packs(self):
        store = open_dataset_store(self.dataset)
        assert {key for key in self.needed if store.stat(key) is None} == set()
        held = set(self.dataset.packs.filter(ranges__is_committed=True).values_list("state", flat=True))
        assert PackState.DELETING not in held


@pytest.mark.usefixtures("store_row")
def test_no_commit_ever_loses_a_pack(project, member, make_actor):
    admin = make_actor(Role.ADMIN)
    run_state_machine_as_test(
        lambda: Machine(project, member, admin),
        settings=settings(
            max_examples=int(os.environ.get("NEARLINE_SOAK_INTERLEAVINGS", "750")) // _STEPS,
            stateful_step_count=_STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
