"""A commit is all or nothing, and only ever on top of what its author knew."""

import pytest
from django.db import connection

from accounts.errors import PermissionDenied, ProjectNotFound
from accounts.models import AuditEntry
from accounts.permissions import Role
from core import clock
from datasets import signals
from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import commit_key, range_key, root_key
from datasets.engine.range_names import fingerprints
from datasets.errors import (
    ManifestMissing,
    ManifestRejected,
    NameCollision,
    NothingToRevert,
    PackMissing,
    StaleParent,
    UploadClosed,
)
from datasets.models import Branch, Commit, CommitSource, ManifestRange, UploadSession
from datasets.selectors import trees
from datasets.selectors.trees import TreeReader, list_entries
from datasets.services import branches, commits, manifests, tree_edits, uploads
from datasets.services import trees as stored_trees
from nearline.content.manifest import decode_root, encode_root, root_id
from nearline.content.range_deltas import find_base
from tests.factories.datasets import PackedTree, commit_files, make_dataset, send_tree, upload_tree
from tests.interleaving import happens_after

FILES = {"a.txt": b"one", "b/c.txt": b"two", "b/link": "c.txt"}


def record(actor, upload, root, **changes):
    values = {
        "actor": actor,
        "upload": upload,
        "root": root,
        "expected_head": None,
        "message": "first",
        "source": CommitSource.CLI,
        "idempotency_key": "",
    }
    return commits.commit_upload(**{**values, **changes})


def head_of(dataset, branch="main"):
    return Branch.objects.get(dataset=dataset, name=branch).head_id


def test_a_first_commit_becomes_the_head_and_counts_its_files(dataset, member):
    tree = PackedTree(FILES)
    upload = upload_tree(member, dataset, tree)

    commit = record(member, upload, tree.root_id)

    assert head_of(dataset) == commit.id
    assert (commit.files, commit.size_bytes) == (3, 11)
    assert (commit.added, commit.removed, commit.changed) == (3, 0, 0)
    assert commit.author_name == "member"
    assert len(commit.id) == 64


def test_a_second_commit_counts_against_its_parent(dataset, member):
    first = commit_files(member, dataset, FILES)

    second = commit_files(member, dataset, {"a.txt": b"changed", "b/link": "c.txt", "new": b"", "newer": b"x"})

    assert second.parent_id == first.id
    assert (second.added, second.removed, second.changed) == (2, 1, 1)


def test_changes_are_counted_in_ranges_that_keep_their_paths_and_in_those_that_do_not(dataset, member):
    many = {f"{number:05}": b"" for number in range(40_000)}
    first = commit_files(member, dataset, many)
    edits = {"00001": b"edited", "00002": "link", "20000": b"edited", "39998": b"edited", "39999a": b"new"}
    later = {**many, **edits}
    del later["39999"]
    tree = PackedTree(later)
    upload = upload_tree(member, dataset, tree)

    checked = manifests.check_tree(dataset, tree.root_id, parent=first)
    second = record(member, upload, tree.root_id, expected_head=first.id)
    trees.forget()
    counted_anew = commit_files(member, dataset, many), commit_files(member, dataset, later)

    before, now = (TreeReader(dataset).read_root(commit.root) for commit in (first, second))
    pairs = {(old.range_id, new.range_id) for old, new in zip(before, now, strict=True)}
    assert checked.changed.keys() < pairs
    assert sorted(checked.changed.values()) == [1, 2]
    assert [(commit.added, commit.removed, commit.changed) for commit in (second, *counted_anew)] == [
        (1, 1, 4),
        (1, 1, 4),
        (1, 1, 4),
    ]


def test_the_id_is_the_hash_of_the_record_that_the_store_keeps(dataset, member):
    commit = commit_files(member, dataset, FILES, message="Grüße")

    data = open_dataset_store(dataset).get(commit_key(commit.id))

    assert root_id(data) == commit.id  # both are plain BLAKE3
    assert "Grüße".encode() in data


def test_a_commit_on_a_stale_parent_is_refused_and_leaves_the_branch_alone(dataset, member):
    newest = commit_files(member, dataset, FILES)
    tree = PackedTree({"late": b"late"})
    upload = upload_tree(member, dataset, tree)

    with pytest.raises(StaleParent) as caught:
        record(member, upload, tree.root_id, expected_head=None)

    assert caught.value.details["head"] == newest.id
    assert head_of(dataset) == newest.id
    assert Commit.objects.count() == 1


def test_a_race_lost_after_the_head_was_read_is_refused_as_a_whole(dataset, member):
    tree = PackedTree({"late": b"late"})
    upload = upload_tree(member, dataset, tree)
    winner = []

    def let_another_win(execute, sql, params, many, context):
        # Ranges are looked up after the head was compared and before the transaction begins.
        if "datasets_manifestrange" in sql and not winner:
            winner.append("under way")
            winner[0] = commit_files(member, dataset, FILES)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(let_another_win), pytest.raises(StaleParent) as caught:
        record(member, upload, tree.root_id)

    assert caught.value.details["head"] == winner[0].id
    assert [row.id for row in Commit.objects.all()] == [winner[0].id]
    assert UploadSession.objects.get(pk=upload.pk).state == "open"


def test_the_same_key_returns_the_same_commit(dataset, member):
    tree = PackedTree(FILES)
    upload = upload_tree(member, dataset, tree)

    first = record(member, upload, tree.root_id, idempotency_key="k1")
    again = record(member, upload, tree.root_id, idempotency_key="k1")

    assert again.id == first.id
    assert Commit.objects.count() == 1


def test_the_same_key_sent_twice_at_once_returns_the_same_commit(dataset, member):
    tree = PackedTree(FILES)
    upload = upload_tree(member, dataset, tree)
    made = []

    with happens_after(
        "idempotency_key", lambda: made.append(record(member, upload, tree.root_id, idempotency_key="k1"))
    ):
        again = record(member, upload, tree.root_id, idempotency_key="k1")

    assert [again.id] == [commit.id for commit in made]


def test_a_commit_of_a_branch_that_is_deleted_meanwhile_is_refused(dataset, member):
    branches.create_branch(actor=member, dataset=dataset, name="trial", at="main")
    tree = PackedTree(FILES)
    upload = upload_tree(member, dataset, tree, branch="trial")

    with (
        happens_after("datasets_branch", lambda: branches.delete_branch(actor=member, dataset=dataset, name="trial")),
        pytest.raises(StaleParent),
    ):
        record(member, upload, tree.root_id)


def test_the_tree_that_the_branch_holds_makes_no_new_commit(dataset, member):
    first = commit_files(member, dataset, FILES)

    again = commit_files(member, dataset, FILES)

    assert again.id == first.id
    assert Commit.objects.count() == 1


def test_a_session_ends_with_its_commit(dataset, member):
    tree = PackedTree(FILES)
    upload = upload_tree(member, dataset, tree)
    record(member, upload, tree.root_id)

    ended = UploadSession.objects.select_related("dataset__store").get(pk=upload.pk)

    assert (ended.state, ended.commit_id) == ("committed", head_of(dataset))
    with pytest.raises(UploadClosed):
        record(member, ended, tree.root_id, expected_head=head_of(dataset))


def test_an_expired_session_commits_nothing(dataset, member):
    tree = PackedTree(FILES)
    upload = upload_tree(member, dataset, tree)

    with clock.frozen_at(upload.expires_at + uploads.SESSION_LIFETIME), pytest.raises(UploadClosed):
        record(member, upload, tree.root_id)

    assert head_of(dataset) is None


def test_packs_that_never_arrived_are_named(dataset, member):
    tree = PackedTree(FILES)
    upload = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="x").upload
    store = open_dataset_store(dataset)
    tree.put_into(store)

    with pytest.raises(PackMissing) as caught:
        record(member, upload, tree.root_id)

    assert caught.value.details["packs"] == list(tree.packs)
    assert head_of(dataset) is None
    assert not ManifestRange.objects.exists()


def test_packs_of_another_dataset_do_not_count(dataset, member, project):
    other = make_dataset(member, project)
    commit_files(member, other, FILES)
    tree = PackedTree(FILES)
    upload = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="x").upload
    tree.put_into(open_dataset_store(dataset))

    with pytest.raises(PackMissing):
        record(member, upload, tree.root_id)


def test_a_missing_root_is_refused(dataset, member):
    upload = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="x").upload

    with pytest.raises(ManifestRejected, match="was not uploaded"):
        record(member, upload, "0" * 64)


def test_a_root_that_is_something_else_is_refused(dataset, member):
    tree = PackedTree(FILES)
    upload = upload_tree(member, dataset, tree)
    open_dataset_store(dataset).put(root_key("0" * 64), tree.tree.root)

    with pytest.raises(ManifestRejected, match="something else"):
        record(member, upload, "0" * 64)

    assert head_of(dataset) is None


def test_a_missing_range_is_refused(dataset, member):
    tree = PackedTree(FILES)
    upload = upload_tree(member, dataset, tree)
    open_dataset_store(dataset).delete([range_key(next(iter(tree.tree.objects)))])

    with pytest.raises(ManifestRejected, match="was not uploaded"):
        record(member, upload, tree.root_id)


def test_a_damaged_range_is_refused_and_not_remembered(dataset, member):
    tree = PackedTree(FILES)
    upload = upload_tree(member, dataset, tree)
    range_id, data = next(iter(tree.tree.objects.items()))
    store = open_dataset_store(dataset)
    store.put(range_key(range_id), data[:-3])

    with pytest.raises(ManifestRejected):
        record(member, upload, tree.root_id)
    store.put(range_key(range_id), data)

    assert record(member, upload, tree.root_id).files == 3


def test_a_range_may_be_sent_as_what_it_changes_of_one_that_the_dataset_has(dataset, member):
    """It is read like any other, also by those who remember nothing, and is no base that a tree would lead to."""
    first = PackedTree(FILES)
    commit_files(member, dataset, FILES)
    after = {**FILES, "new": b"new", "a.txt": b"changed"}

    commit = commit_files(member, dataset, after, on=first)

    trees.forget()
    assert list(list_entries(commit)) == PackedTree(after).entries
    assert (commit.added, commit.removed, commit.changed) == (1, 0, 1)
    assert commit.root == PackedTree(after).root_id
    edited = tree_edits.remove_paths(
        actor=member, dataset=dataset, branch="main", paths=[b"new"], expected_head=commit.pk
    )
    assert [entry.path for entry in list_entries(edited)] == [b"a.txt", b"b/c.txt", b"b/link"]


def test_what_becomes_again_what_it_was_leaves_the_range_that_others_are_based_on_whole(dataset, member):
    files = {f"{number:03}": b"%d" % number for number in range(300)}
    first, store = commit_files(member, dataset, files), open_dataset_store(dataset)
    made = [first]
    for name, to in ((b"000", b"0000"), (b"0000", b"000"), (b"000", b"0001"), (b"0001", b"0000")):
        values = {"branch": "main", "path": name, "to": to, "expected_head": made[-1].pk}
        made.append(tree_edits.rename_path(actor=member, dataset=dataset, **values))

    reader = TreeReader(dataset)
    ranges = [reader.read_root(commit.root)[0].range_id for commit in made]
    assert (ranges[2], ranges[4]) == (ranges[0], ranges[1])
    assert [find_base(store.get(range_key(id_))) for id_ in ranges[:4]] == [None, ranges[0], None, ranges[0]]
    trees.forget()
    for commit in made:
        assert len(list(list_entries(commit))) == 300


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda store, base, _: store.delete([range_key(base)]), ManifestMissing),
        (lambda store, base, tree: store.put(range_key(base), tree.objects[tree.ranges[0].range_id]), ManifestRejected),
        (lambda store, base, _: store.put(range_key(base), encode_root([])), ManifestRejected),
        (lambda store, _, tree: store.put(range_key(tree.ranges[0].range_id), encode_root([])), ManifestRejected),
    ],
    ids=["the base is missing", "a circle", "the base is damaged", "damaged"],
)
def test_a_delta_without_a_sound_base_is_refused_and_not_remembered(dataset, member, spoil, error):
    first = PackedTree(FILES)
    first.put_into(open_dataset_store(dataset))
    tree = PackedTree({**FILES, "new": b"new"}, on=first)
    upload = upload_tree(member, dataset, tree)
    spoil(open_dataset_store(dataset), first.tree.ranges[0].range_id, tree.tree)

    with pytest.raises(ManifestRejected) as caught:
        record(member, upload, tree.root_id)

    assert type(caught.value) is error
    assert not ManifestRange.objects.exists()


def test_the_base_of_a_delta_is_a_range_of_its_own_dataset(dataset, member, project):
    commit_files(member, make_dataset(member, project, "other"), FILES)
    tree = PackedTree({**FILES, "new": b"new"}, on=PackedTree(FILES))
    upload = upload_tree(member, dataset, tree)

    with pytest.raises(ManifestMissing):
        record(member, upload, tree.root_id)


def test_stored_trees_whose_ranges_are_collected_one_by_one_have_no_deltas(dataset, member, project):
    upload = stored_trees.start_upload(actor=member, project=project, client_id="x")
    first = PackedTree(FILES)
    first.put_into(open_dataset_store(upload.dataset))
    tree = PackedTree({**FILES, "new": b"new"}, on=first)
    send_tree(member, upload, tree)

    with pytest.raises(ManifestRejected, match="is a delta itself"):
        stored_trees.check_upload(actor=member, upload=upload, root=tree.root_id)


def test_a_root_that_lies_about_a_known_range_is_refused(dataset, member):
    first = commit_files(member, dataset, FILES)
    store = open_dataset_store(dataset)
    rows = decode_root(store.get(root_key(first.root)))
    lie = encode_root([rows[0]._replace(size_bytes=1)])
    store.put(root_key(root_id(lie)), lie)
    upload = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="x").upload

    with pytest.raises(ManifestRejected, match="says something wrong"):
        record(member, upload, root_id(lie), expected_head=first.id)


def test_blobs_past_the_end_of_their_pack_are_refused(dataset, member):
    tree = PackedTree({"a": b"12345"})
    upload = upload_tree(member, dataset, tree)
    dataset.packs.update(size_bytes=4)

    with pytest.raises(ManifestRejected, match="past the end"):
        record(member, upload, tree.root_id)


@pytest.mark.parametrize("names", [("A.txt", "a.txt"), ("é.txt", "e\u0301.txt"), ("Folder/x", "folder/y")])
def test_names_that_some_machine_cannot_hold_apart_are_refused_with_both(dataset, member, names):
    tree = PackedTree(dict.fromkeys(names, b"x"))
    upload = upload_tree(member, dataset, tree)

    with pytest.raises(NameCollision, match="differ only in case or Unicode form"):
        record(member, upload, tree.root_id)

    assert head_of(dataset) is None


def test_all_names_that_collide_are_told_at_once_and_written_apart(dataset, member):
    tree = PackedTree(dict.fromkeys(["A/x", "a/x", "README", "Readme", "\u00e9", "e\u0301"], b"x"))
    upload = upload_tree(member, dataset, tree)

    with pytest.raises(NameCollision) as caught:
        record(member, upload, tree.root_id)

    assert caught.value.details["groups"] == [["A", "a"], ["README", "Readme"], [r"e\u0301", r"\u00e9"]]
    assert caught.value.details["total"] == 3
    assert head_of(dataset) is None


def test_names_that_differ_only_in_case_or_form_can_be_allowed(dataset, member):
    tree = PackedTree(dict.fromkeys(["A/x", "a/x", "\u00e9", "e\u0301"], b"x"))
    upload = upload_tree(member, dataset, tree)

    commit = record(member, upload, tree.root_id, allow_collisions=True)

    assert head_of(dataset) == commit.id
    assert commit.files == 4


def test_what_the_parent_was_allowed_needs_no_leave_again_but_a_new_collision_does(dataset, member):
    old = dict.fromkeys(["A/x", "a/y"], b"x")
    first = commit_files(member, dataset, old, allow_collisions=True)

    second = commit_files(member, dataset, {**old, "a/x": b"x", "more": b"x"})
    with pytest.raises(NameCollision) as caught:
        commit_files(member, dataset, {**old, "a/x": b"x", "more": b"x", "a/X": b"x"})

    assert second.parent_id == first.id
    assert caught.value.details["groups"] == [["a/X", "a/x"]]
    assert head_of(dataset) == second.id


@pytest.mark.parametrize("later", [{"a": b"x", "b": b"edited", "d": b"x"}, {"a": b"x", "c": b"x", "d": b"x"}])
def test_what_is_known_of_names_is_right_whether_they_changed_or_not(dataset, member, later):
    commit_files(member, dataset, dict.fromkeys("abd", b"x"))

    commit = commit_files(member, dataset, later)

    reader = TreeReader(dataset)
    (row,) = reader.read_root(commit.root)
    kept = ManifestRange.objects.get(dataset=dataset, range_id=row.range_id)
    assert bytes(kept.names) == fingerprints(reader.load_range(row.range_id))
    with pytest.raises(NameCollision):
        commit_files(member, dataset, {**later, "D": b"x"})


def test_a_file_where_a_folder_is_needed_is_never_allowed(dataset, member):
    many = {f"a{chr(code)}{number:05}": b"" for code in (0x21,) for number in range(40_000)}
    tree = PackedTree({**many, "a": b"", "a/b": b"", "A": b""})
    upload = upload_tree(member, dataset, tree)
    assert len(tree.tree.ranges) > 1

    with pytest.raises(NameCollision) as caught:
        record(member, upload, tree.root_id, allow_collisions=True)

    assert caught.value.details["groups"] == [["a", "a/b"]]
    assert head_of(dataset) is None


def test_the_hostile_name_is_found_also_when_its_twin_lies_in_an_old_range(dataset, member):
    many = {f"{number:05}": b"" for number in range(40_000)}
    commit_files(member, dataset, {**many, "zz": b""})
    tree = PackedTree({**many, "zz": b"", "ZZ": b""})
    upload = upload_tree(member, dataset, tree)
    assert len(tree.tree.ranges) > 1

    with pytest.raises(ManifestRejected) as caught:
        record(member, upload, tree.root_id, expected_head=head_of(dataset))

    assert caught.value.details["paths"] == ["ZZ", "zz"]


def test_a_known_range_is_not_read_again(dataset, member, tmp_path):
    many = {f"{number:05}": b"" for number in range(40_000)}
    first = commit_files(member, dataset, many)
    store = open_dataset_store(dataset)
    shared = [row.range_id for row in decode_root(store.get(root_key(first.root)))][:-1]
    store.delete(map(range_key, shared))

    second = commit_files(member, dataset, {**many, "39999": b"edited"})

    # upload_tree puts the ranges back; what counts is that the commit counted one change only.
    assert (second.added, second.removed, second.changed) == (0, 0, 1)
    assert ManifestRange.objects.filter(dataset=dataset).count() == len(shared) + 2


def test_the_names_of_a_new_commit_are_at_hand_for_a_search(dataset, member):
    commit = commit_files(member, dataset, FILES)
    store = open_dataset_store(dataset)
    store.delete([range_key(row.range_id) for row in decode_root(store.get(root_key(commit.root)))])

    assert trees.list_matching(commit, b"**d.txt", resume_at=None, limit=10).items == []


def test_a_viewer_may_not_commit(dataset, member, viewer):
    tree = PackedTree(FILES)
    upload = upload_tree(member, dataset, tree)

    with pytest.raises(PermissionDenied):
        record(viewer, upload, tree.root_id)

    assert head_of(dataset) is None


def test_a_stranger_does_not_learn_that_the_dataset_exists(dataset, member, make_actor):
    tree = PackedTree(FILES)
    upload = upload_tree(member, dataset, tree)

    with pytest.raises(ProjectNotFound):
        record(make_actor(None), upload, tree.root_id)


def test_a_commit_is_audited_and_told(dataset, member, django_capture_on_commit_callbacks):
    told = []
    signals.commit_recorded.connect(lambda commit_id, **_: told.append(commit_id), weak=False, dispatch_uid="t")

    with django_capture_on_commit_callbacks(execute=True):
        commit = commit_files(member, dataset, FILES)
    signals.commit_recorded.disconnect(dispatch_uid="t")

    assert told == [commit.id]
    entry = AuditEntry.objects.get(action="datasets.commit")
    assert (entry.actor_name, entry.target_id, entry.facts["branch"]) == ("member", commit.id, "main")


def test_going_back_makes_a_new_commit_with_the_old_tree(dataset, member):
    first = commit_files(member, dataset, FILES)
    second = commit_files(member, dataset, {"a.txt": b"other"})

    back = commits.revert(actor=member, dataset=dataset, commit=first, branch_name="main")

    assert back.root == first.root
    assert back.parent_id == second.id
    assert back.source == "revert"
    assert (back.added, back.removed, back.changed) == (2, 0, 1)
    assert head_of(dataset) == back.id


def test_going_back_to_what_is_there_is_refused(dataset, member):
    first = commit_files(member, dataset, FILES)

    with pytest.raises(NothingToRevert):
        commits.revert(actor=member, dataset=dataset, commit=first, branch_name="main")

    assert head_of(dataset) == first.id


def test_branches_move_on_their_own(dataset, member):
    first = commit_files(member, dataset, FILES)
    branches.create_branch(actor=member, dataset=dataset, name="trial", at="main")

    second = commit_files(member, dataset, {"only": b"here"}, branch="trial")

    assert (head_of(dataset), head_of(dataset, "trial")) == (first.id, second.id)


def test_a_commit_takes_few_queries(dataset, member, django_assert_max_num_queries):
    tree = PackedTree({f"{number:05}": str(number).encode() for number in range(3000)}, pack_bytes=20_000)
    upload = upload_tree(member, dataset, tree)

    with django_assert_max_num_queries(30):
        record(member, upload, tree.root_id)


def test_viewers_cannot_revert(dataset, member, make_actor):
    first = commit_files(member, dataset, FILES)
    second = commit_files(member, dataset, {"x": b"y"})

    with pytest.raises(PermissionDenied):
        commits.revert(actor=make_actor(Role.VIEWER), dataset=dataset, commit=first, branch_name="main")

    assert head_of(dataset) == second.id
