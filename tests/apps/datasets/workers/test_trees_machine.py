"""Trees that are stored, kept, released, collected and purged in any order: what is held or committed always reads."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from accounts.permissions import Role
from core import clock
from datasets.adapters.opening import open_dataset_store
from datasets.errors import PackLeaving, PackMissing
from datasets.models import Branch, Dataset, StoredTree, TreeHold
from datasets.selectors import files
from datasets.selectors import trees as tree_reads
from datasets.services import datasets, trees
from datasets.workers import collection, purges
from tests.factories.datasets import make_dataset, source_files
from tests.transactions import undone

START = datetime(2026, 1, 1, tzinfo=UTC)
# Few contents, so that trees share them.
NAMES = st.sampled_from(["a", "b", "ab", "abc", "bc"])
HOLDERS = st.sampled_from(["job_1", "job_2", "job_3"])
LEAVING = (PackLeaving, PackMissing)


def content(names):
    return {name: name.encode() * 3 for name in names}


class Machine(RuleBasedStateMachine):
    workers = Bundle("workers")

    def __init__(self, project, member, admin):
        super().__init__()
        self.member, self.admin, self.project = member, admin, project
        self.now = START
        self.block = undone()
        self.block.__enter__()
        with clock.frozen_at(self.now):
            self.datasets = [make_dataset(member, project) for _ in range(2)]

    def teardown(self):
        with clock.frozen_at(self.now):
            for dataset in self.datasets:
                datasets.delete_dataset(actor=self.admin, dataset=dataset)
            for holder in ("job_1", "job_2", "job_3"):
                trees.release_tree(actor=self.member, holder=holder)
        for _ in range(9):
            self.now += timedelta(days=9)
            with clock.frozen_at(self.now):
                purges.purge_deleted()
                collection.collect()
        left = [blob.key for row in Dataset.objects.all() for blob in open_dataset_store(row).list_blobs("")]
        assert left == [], "what nothing refers to leaves in the end"
        self.block.__exit__(None, None, None)

    @rule(holder=HOLDERS, names=NAMES)
    def store(self, holder, names):
        with clock.frozen_at(self.now):
            try:
                trees.store_tree(
                    actor=self.member, project=self.project, holder=holder, files=source_files(content(names))
                )
            except LEAVING:
                return

    @rule(holder=HOLDERS)
    def release(self, holder):
        with clock.frozen_at(self.now):
            trees.release_tree(actor=self.member, holder=holder)

    @rule(data=st.data(), number=st.integers(0, 1))
    def keep(self, data, number):
        """Keep any tree that there is a row of, held or not."""
        rows = list(StoredTree.objects.select_related("dataset__store").order_by("pk"))
        if not rows:
            return
        with clock.frozen_at(self.now):
            try:
                trees.commit_tree(
                    actor=self.member,
                    tree=data.draw(st.sampled_from(rows)),
                    dataset=self.datasets[number],
                    branch="main",
                )
            except LEAVING:
                return

    @rule(number=st.integers(0, 1))
    def delete_dataset(self, number):
        with clock.frozen_at(self.now):
            datasets.delete_dataset(actor=self.admin, dataset=self.datasets[number])
            self.datasets[number] = make_dataset(self.member, self.project)

    @rule()
    def purge(self):
        with clock.frozen_at(self.now):
            purges.purge_deleted()

    @rule()
    def collect(self):
        with clock.frozen_at(self.now):
            collection.collect(limit=3)

    @rule()
    def condemn(self):
        with clock.frozen_at(self.now):
            collection.condemn_unreferenced()

    @rule(target=workers)
    def take(self):
        with clock.frozen_at(self.now):
            return collection.take_due(limit=3) or multiple()

    @rule(packs=consumes(workers))
    def delete(self, packs):
        with clock.frozen_at(self.now):
            collection.delete_packs(packs)

    @rule(step=st.sampled_from([timedelta(minutes=40), timedelta(hours=25), timedelta(days=8)]))
    def wait(self, step):
        self.now += step

    @invariant()
    def everything_that_is_held_or_committed_reads(self):
        tree_reads.forget()
        held = [hold.tree for hold in TreeHold.objects.select_related("tree__dataset__store")]
        heads = Branch.objects.filter(dataset__in=self.datasets, head__isnull=False)
        committed = [branch.head for branch in heads.select_related("head__dataset__store")]
        for tree in (*held, *committed):
            for item in files.list_folder(self.member, tree, path=b"", cursor=None, limit=10).items:
                assert b"".join(files.open_file(self.member, tree, path=item.path).read()) == item.path * 3


@pytest.mark.usefixtures("store_row")
def test_what_is_held_or_committed_always_reads(project, member, make_actor):
    admin = make_actor(Role.ADMIN)
    run_state_machine_as_test(
        lambda: Machine(project, member, admin),
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
