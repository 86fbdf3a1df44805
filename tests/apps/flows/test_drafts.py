"""Drafts, and keeping them as versions without losing anybody's work."""

from datetime import UTC, datetime, timedelta

import pytest

from accounts.errors import PermissionDenied, ProjectNotFound
from accounts.models import AuditEntry
from accounts.permissions import Role
from core import bounds, clock
from core.errors import InvalidInput
from datasets.models import StoredTree
from datasets.selectors.trees import list_entries
from flows.errors import DraftMoved, DraftTooLarge, ExampleNotFound, FlowMoved, InvalidFlow
from flows.models import Bundle, Flow, FlowDraft, FlowVersion
from flows.selectors import flows as selectors
from flows.services import bundles, drafts, flows
from flows.services.drafts import Writing
from tests.architecture.routes import bundle
from tests.factories.flows import World
from tests.interleaving import happens_after

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
FLOW = "flow: digits\nsteps:\n  - {name: train, command: train}\n"
OTHER = FLOW.replace("command: train", "command: other")


def keep(actor, project, text=FLOW, *, key="digits", revision=0, **fields) -> FlowDraft:
    return drafts.keep_draft(actor=actor, project=project, key=key, writing=Writing(text, **fields), revision=revision)


def publish(actor, project, text=FLOW, *, key="digits", **fields) -> FlowVersion:
    return drafts.publish(actor=actor, project=project, key=key, writing=Writing(text, **fields))


def test_a_draft_is_kept_over_the_one_it_follows(world: World, member, project):
    with clock.frozen_at(NOON) as move:
        first = keep(member, project, "flow: d", layout={"a": (1.4, 2.6)}, base_version=3)
        move(NOON + timedelta(minutes=1))
        second = keep(member, project, "flow: di", revision=first.revision)

    assert (first.revision, second.revision) == (1, 2)
    kept = FlowDraft.objects.get()
    assert (kept.text, kept.layout, kept.updated_at) == ("flow: di", {}, NOON + timedelta(minutes=1))
    assert first.layout == {"a": [1, 3]}


def test_of_two_windows_that_keep_a_first_draft_at_once_one_is_shown_the_other(world: World, member, project):
    with (
        happens_after('FROM "flows_flowdraft"', lambda: keep(member, project, "one")),
        pytest.raises(DraftMoved) as caught,
    ):
        keep(member, project, "two")

    assert caught.value.details["text"] == "one"


def test_another_window_cannot_overwrite_a_draft_and_is_shown_it(world: World, member, project):
    keep(member, project, "one")
    keep(member, project, "two", revision=1)

    with pytest.raises(DraftMoved) as caught:
        keep(member, project, "three", revision=1)

    assert (caught.value.details["text"], caught.value.details["revision"]) == ("two", 2)
    assert FlowDraft.objects.get().text == "two"


def test_a_revision_as_high_as_the_api_takes_is_a_conflict(world: World, member, project):
    keep(member, project, "one")

    with pytest.raises(DraftMoved):
        keep(member, project, "two", revision=bounds.MAX_COUNT)

    assert FlowDraft.objects.get().text == "one"


def test_the_same_draft_sent_again_is_no_conflict(world: World, member, project):
    keep(member, project, "one")

    assert keep(member, project, "one").revision == 1


def test_a_draft_that_is_gone_begins_anew(world: World, member, project):
    keep(member, project, "one")
    drafts.discard_draft(actor=member, project=project, key="digits")

    assert keep(member, project, "two", revision=1).revision == 1


def test_drafts_are_seen_by_who_wrote_them_and_nobody_else(world: World, member, make_actor, project):
    other = make_actor(Role.MEMBER, name="other")
    keep(member, project, key="~new")

    assert selectors.find_draft(actor=other, project=project, key="~new") is None
    assert list(selectors.list_new_drafts(actor=other)) == []
    assert [draft.key for draft in selectors.list_new_drafts(actor=member)] == ["~new"]


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("text", "layout", "error"),
    [
        ("x" * (512 * 2**10 + 1), {}, DraftTooLarge),
        ("x", {"a": (2e6, 0)}, InvalidInput),
        ("x", {str(number): (0, 0) for number in range(20_001)}, InvalidInput),
    ],
)
def test_a_draft_has_bounds(member, project, text, layout, error):
    with pytest.raises(error):
        keep(member, project, text, layout=layout)

    assert FlowDraft.objects.count() == 0


def test_who_may_not_push_keeps_no_draft_and_no_version(world: World, viewer, make_actor, project):
    for actor, error in ((viewer, PermissionDenied), (make_actor(None), ProjectNotFound)):
        for deed in (keep, publish):
            with pytest.raises(error):
                deed(actor, project)

    assert FlowDraft.objects.count() == Flow.objects.count() == 0


def test_keeping_as_a_version_takes_the_layout_and_ends_the_draft(world: World, member, project):
    keep(member, project, key="~new")

    version = publish(member, project, key="~new", layout={"train": (10, 20)})

    assert (version.number, version.layout, version.text) == (1, {"train": [10, 20]}, FLOW)
    assert FlowDraft.objects.count() == 0


def test_comments_and_places_change_without_a_new_version(world: World, member, project):
    first = publish(member, project, key="~new")

    again = publish(member, project, f"# why\n{FLOW}", layout={"train": (1, 2)}, base_version=1)

    assert (again.pk, again.text, again.layout) == (first.pk, f"# why\n{FLOW}", {"train": [1, 2]})
    assert AuditEntry.objects.filter(action="flows.edit_version").count() == 1


def test_a_version_that_somebody_kept_meanwhile_is_told_and_nothing_changes(world: World, member, make_actor, project):
    kim = make_actor(Role.MEMBER, name="kim")
    publish(member, project, key="~new")
    publish(kim, project, OTHER, base_version=1)
    keep(member, project, "mine", base_version=1)

    with pytest.raises(FlowMoved, match="kim kept version 2 of digits while you wrote") as caught:
        publish(member, project, f"{FLOW}  - {{name: b, command: c}}\n", base_version=1)

    assert {key: caught.value.details[key] for key in ("number", "created_by", "text")} == {
        "number": 2,
        "created_by": "kim",
        "text": OTHER,
    }
    assert (FlowVersion.objects.count(), FlowDraft.objects.get().text) == (2, "mine")


def test_a_new_flow_does_not_land_on_one_that_is_there(world: World, member, project):
    publish(member, project, key="~new")

    with pytest.raises(FlowMoved, match="There is a flow called digits already: version 1 by member"):
        publish(member, project, OTHER, key="~other")

    assert FlowVersion.objects.count() == 1


def test_a_flow_with_problems_is_not_kept_and_its_draft_stays(world: World, member, project):
    keep(member, project, "flow: digits", key="~new")

    with pytest.raises(InvalidFlow):
        publish(member, project, "flow: digits", key="~new")

    assert (Flow.objects.count(), FlowDraft.objects.count()) == (0, 1)


def test_the_code_of_a_version_stays_with_those_that_begin_from_it(world: World, member, project):
    code = bundles.save_bundle(actor=member, project=project, data=bundle()).sha256
    flows.save_version(actor=member, project=project, text=FLOW, bundle=code)

    changed = publish(member, project, OTHER, base_version=1)
    renamed = publish(member, project, OTHER.replace("digits", "letters"), base_version=1)

    assert (changed.bundle, renamed.bundle, renamed.flow.name) == (code, code, "letters")


def test_a_flow_that_starts_from_an_example_has_its_code(world: World, member, project):
    version = publish(member, project, key="~new", example="digits")

    assert version.bundle == Bundle.objects.get().sha256
    names = {entry.path for entry in list_entries(StoredTree.objects.get(root=Bundle.objects.get().root))}
    assert b"train.py" in names
    assert b"flow.yaml" not in names
    again = publish(member, project, OTHER.replace("digits", "more"), key="~more", example="digits")
    assert again.bundle == version.bundle


@pytest.mark.parametrize("name", ["nowhere", "../digits", "."])
def test_an_example_that_does_not_ship_is_refused(world: World, member, project, name):
    with pytest.raises(ExampleNotFound):
        publish(member, project, key="~new", example=name)

    assert Flow.objects.count() == Bundle.objects.count() == 0
