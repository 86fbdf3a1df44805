from datetime import UTC, datetime

import pytest

from accounts.errors import PermissionDenied, ProjectNotFound
from accounts.models import AuditEntry
from accounts.permissions import Role
from core.clock import frozen_at
from core.errors import InvalidInput
from experiments.errors import NoteChanged, ViewExists
from experiments.models import Experiment, Fact, SavedView
from experiments.selectors import lists, saved_views
from experiments.services import annotations
from experiments.services import saved_views as view_services
from tests.factories.experiments import make_experiments, make_run

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def experiment(project) -> Experiment:
    return make_experiments(make_run(project), 1, lambda index: {"tags": {"split": "patient"}})[0]


def test_a_note_says_who_wrote_it_and_when(member, experiment):
    with frozen_at(NOW):
        row = annotations.write_note(actor=member, experiment=experiment, text=" Diverged\r\nat 40. ", seen_at=None)

    assert (row.note, row.note_by, row.note_at) == ("Diverged\nat 40.", "member", NOW)
    assert AuditEntry.objects.filter(action="flows.write_note").count() == 1
    assert lists.find(actor=member, where='note contains "DIVERGED"').count() == 1


def test_a_note_that_somebody_else_wrote_meanwhile_is_not_lost(member, make_actor, experiment):
    annotations.write_note(actor=make_actor(Role.ADMIN), experiment=experiment, text="Keep this.", seen_at=None)

    with pytest.raises(NoteChanged, match="admin wrote this note meanwhile"):
        annotations.write_note(actor=member, experiment=experiment, text="Mine.", seen_at=None)

    assert Experiment.objects.get().note == "Keep this."


def test_tags_are_added_changed_and_taken_away_and_found(member, experiment):
    annotations.set_tag(actor=member, experiment=experiment, key=" best ")
    annotations.set_tag(actor=member, experiment=experiment, key="score", value="3")
    annotations.set_tag(actor=member, experiment=experiment, key="score", value="4")
    assert Experiment.objects.get().tags == {"split": "patient", "best": "", "score": "4"}
    assert lists.find(actor=member, where="tags.best and tags.score > 3").count() == 1

    annotations.remove_tag(actor=member, experiment=experiment, key="best")

    assert Experiment.objects.get().tags == {"split": "patient", "score": "4"}
    assert lists.find(actor=member, where="tags.best").count() == 0


@pytest.mark.parametrize(("key", "value"), [("", "x"), ("k" * 201, ""), ("k", "v" * 501)])
def test_a_tag_has_bounds(member, experiment, key, value):
    with pytest.raises(InvalidInput):
        annotations.set_tag(actor=member, experiment=experiment, key=key, value=value)

    assert Experiment.objects.get().tags == {"split": "patient"}


def test_who_may_only_look_changes_nothing(viewer, make_actor, experiment):
    facts = Fact.objects.count()
    for actor, error in ((viewer, PermissionDenied), (make_actor(None), ProjectNotFound)):
        with pytest.raises(error):
            annotations.write_note(actor=actor, experiment=experiment, text="x", seen_at=None)
        with pytest.raises(error):
            annotations.set_tag(actor=actor, experiment=experiment, key="x")
        with pytest.raises(error):
            annotations.remove_tag(actor=actor, experiment=experiment, key="split")
        with pytest.raises(error):
            view_services.save_view(actor=actor, project=experiment.project, name="x", query="")

    row = Experiment.objects.get()
    assert (row.note, row.tags, Fact.objects.count(), SavedView.objects.count()) == ("", {"split": "patient"}, facts, 0)


def test_a_view_is_shared_and_its_owner_replaces_and_deletes_it(project, member, viewer, make_actor):
    view = view_services.save_view(actor=member, project=project, name=" the  best ", query="q=tags.best")
    again = view_services.save_view(actor=member, project=project, name="the best", query="q=tags.best&sort=-took")

    assert again.pk == view.pk
    assert [(row.name, row.query) for row in saved_views.list_views(actor=viewer)] == [
        ("the best", "q=tags.best&sort=-took")
    ]
    assert not saved_views.list_views(actor=make_actor(None)).exists()
    with pytest.raises(PermissionDenied):
        view_services.delete_view(actor=viewer, view=view)
    view_services.delete_view(actor=member, view=view)
    assert not SavedView.objects.exists()


def test_a_view_is_renamed_by_its_owner_or_an_admin_but_not_to_a_name_that_is_there(project, member, make_actor):
    view = view_services.save_view(actor=member, project=project, name="mine", query="q=tags.best")
    view_services.save_view(actor=member, project=project, name="ours", query="")
    other, admin = make_actor(Role.MEMBER, name="other"), make_actor(Role.ADMIN)

    with pytest.raises(PermissionDenied):
        view_services.rename_view(actor=other, view=view, name="theirs")
    with pytest.raises(ViewExists, match="a view called 'ours' in team-a already"):
        view_services.rename_view(actor=member, view=view, name="ours")
    with pytest.raises(InvalidInput):
        view_services.rename_view(actor=member, view=view, name=" ")
    assert SavedView.objects.get(pk=view.pk).name == "mine"

    view_services.rename_view(actor=member, view=view, name=" the  best ")
    assert SavedView.objects.get(pk=view.pk).name == "the best"
    view_services.rename_view(actor=admin, view=view, name="best of all")
    assert SavedView.objects.get(pk=view.pk).name == "best of all"


def test_the_view_of_another_is_neither_replaced_nor_deleted_but_by_an_admin(project, member, make_actor):
    view = view_services.save_view(actor=member, project=project, name="mine", query="q=tags.best")
    other = make_actor(Role.MEMBER, name="other")

    with pytest.raises(ViewExists, match="member keeps a view called 'mine'"):
        view_services.save_view(actor=other, project=project, name="mine", query="")
    with pytest.raises(PermissionDenied):
        view_services.delete_view(actor=other, view=view)
    assert SavedView.objects.get().query == "q=tags.best"

    view_services.delete_view(actor=make_actor(Role.ADMIN), view=view)
    assert not SavedView.objects.exists()
