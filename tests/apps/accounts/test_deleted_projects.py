"""A project is deleted with what happens told first, can be restored, and is removed in the end without a trace."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count

import pytest
from django.db import connection
from django.test import Client

from accounts import selectors
from accounts.errors import DeletedProjectNotFound, ProjectDeleted, ProjectExists, ProjectNotFound
from accounts.models import AuditEntry, Membership, Project, User
from accounts.permissions import Actor, Role
from accounts.selectors import actor_of
from accounts.services import deletions, projects
from accounts.workers import deleted_projects
from compute.models import Job
from compute.workers import checkpoints, cleaning, launches, observe
from core import clock
from core.units import ONE_GPU
from datasets.models import CachedCommit, CacheHold, Dataset
from datasets.workers import evictions, purges
from flows.models import Run
from flows.workers import advance, staging
from scheduler.models import Placement, PoolSample, Queue, QueueSample, Workload
from scheduler.selectors import usage
from scheduler.selectors.snapshots import view_queue
from tests.factories.compute import make_resource, make_template, start, submit
from tests.factories.datasets import commit_files, make_dataset

pytestmark = pytest.mark.django_db


class Killed(BaseException):
    """The process ends here."""


def now_of(name: str) -> Actor:
    return actor_of(User.objects.get(username=name))


def get(name: str) -> Project:
    return Project.objects.get(name=name)


def delete(*, by: str = "admin", **options: bool) -> Project:
    return deletions.delete_project(actor=now_of(by), project=get("team-a"), **options)


def tick() -> None:
    """Run everything that the end of a project needs of others."""
    deleted_projects.stop_work()
    advance.advance_all()
    launches.stop_ending_jobs()
    observe.observe_all()
    advance.advance_all()
    staging.release_inputs()
    cleaning.delete_old_files()
    checkpoints.delete_due()
    purges.purge_deleted()
    for copy in CachedCommit.objects.filter(state="evicting"):
        evictions.remove_copy(cached_commit_id=copy.pk)


@contextmanager
def killed_at_deletion(number: int) -> Iterator[None]:
    """Kill the process instead of its statement of this number that deletes rows."""
    deletions = count(1)

    def watch(execute, sql, *rest):
        if sql.startswith("DELETE") and next(deletions) == number:
            raise Killed
        return execute(sql, *rest)

    with connection.execute_wrapper(watch):
        yield


def what_is_left(project: Project) -> dict[str, int]:
    relations = [relation for relation in Project._meta.related_objects if relation.related_model is not Queue]
    rows = {
        relation.related_model.__name__: relation.related_model._base_manager.filter(
            **{relation.field.name: project.pk}
        ).count()
        for relation in relations
    }
    return {name: number for name, number in rows.items() if number}


def test_what_a_deletion_does_is_told_in_numbers_and_words_and_changes_nothing(everything):
    start([Job.objects.get(name="by-hand")])
    before = AuditEntry.objects.count()

    forecast = deletions.foresee_deletion(actor=now_of("admin"), project=get("team-a"))

    assert {effect.kind: effect.count for effect in forecast.effects} == {
        "live_runs": 1,
        "flows": 2,
        "drafts": 1,
        "experiments": 5,
        "running_jobs": 1,
        "waiting_jobs": 1,
        "jobs": 4,
        "queues": 1,
        "datasets": 1,
        "outputs": 1,
        "cached_commits": 1,
        "sources": 2,
        "members": 3,
        "secrets": 1,
    }
    told = {effect.kind: effect for effect in forecast.effects}
    assert told["waiting_jobs"].text == "1 job waiting: cancelled."
    assert told["running_jobs"].text == "1 job running: stopped by SIGTERM, and by SIGKILL after the grace period."
    assert [item.name for item in told["running_jobs"].items] == ["by-hand"]
    assert told["running_jobs"].items[0].text.startswith("by system: tests, runs for ")
    assert told["datasets"].text.startswith("1 dataset with 2 commits and ")
    assert told["secrets"].items[0].name == "API_KEY"
    assert (forecast.restore_days, AuditEntry.objects.count()) == (7, before)


def test_a_deleted_project_is_gone_for_everybody_and_comes_back_whole(everything):
    project = delete()
    tick()
    tick()

    assert project.restore_ends_at == project.deleted_at + timedelta(days=7)
    for name in ("viewer", "member", "stranger"):
        with pytest.raises(ProjectNotFound):
            selectors.get_project(actor=now_of(name), name="team-a")
        assert list(selectors.list_deleted(actor=now_of(name))) == []
        with pytest.raises(DeletedProjectNotFound):
            deletions.restore_project(actor=now_of(name), project=project)
    for name in ("admin", "root"):
        actor = now_of(name)
        assert [row.name for row in selectors.list_deleted(actor=actor)] == ["bygone", "team-a"]
        assert list(selectors.list_projects(actor=actor)) == []
        with pytest.raises(ProjectDeleted, match="It can be restored until"):
            selectors.get_project(actor=actor, name="team-a")
    with pytest.raises(ProjectExists, match="A deleted project"):
        projects.create_project(actor=now_of("root"), name="team-a")
    assert not Job.objects.filter(is_live=True).exists()
    assert set(Job.objects.filter(state="cancelled").values_list("reason", flat=True)) >= {
        "The project team-a was deleted by admin."
    }
    assert not Run.objects.exclude(state__in=["succeeded", "failed", "cancelled"]).exists()
    assert set(CachedCommit.objects.values_list("state", flat=True)) == {"gone"}

    deletions.restore_project(actor=now_of("admin"), project=project)

    assert selectors.get_project(actor=now_of("member"), name="team-a").pk == project.pk
    assert Dataset.objects.filter(project=project, deleted_at=None, is_internal=False).count() == 1
    actions = AuditEntry.objects.filter(project_id=project.pk).order_by("pk").values_list("action", flat=True)
    assert [action for action in actions if action.startswith("accounts.")][-2:] == [
        "accounts.delete_project",
        "accounts.restore_deleted_project",
    ]


def test_the_quota_of_a_deleted_project_is_free_at_once_and_back_when_it_is_restored(everything):
    Queue.objects.filter(project__name="team-a").update(gpu_quota_milli=4 * ONE_GPU)

    project = delete()

    queue = Queue.objects.select_related("project").get(project=project)
    assert view_queue(queue).quota.gpu_milli == 0
    deletions.restore_project(actor=now_of("root"), project=project)
    queue = Queue.objects.select_related("project").get(project=project)
    assert view_queue(queue).quota.gpu_milli == 4 * ONE_GPU


def test_a_removal_that_is_killed_again_and_again_ends_as_one_that_is_not(everything):
    """Another project has the same, and keeps it; what the deleted one consumed stays in the history."""
    root = now_of("root")
    other = projects.create_project(actor=root, name="team-b")
    kept = make_dataset(root, other, "xrays")
    commit_files(root, kept, {"a.txt": b"one"})
    resource, _ = make_resource("elsewhere")
    (job,) = submit(other, make_template(resource), "of-others")
    queue = Queue.objects.get(project__name="team-a", pool__name="default")
    project = delete(for_good=True)

    with clock.frozen_at(clock.now()) as move:
        span = {"level": 0, "begins_at": clock.now() - timedelta(minutes=1), "ends_at": clock.now()}
        PoolSample.objects.create(pool_id=queue.pool_id, seconds=60, capacity_gpu_s=60, **span)
        QueueSample.objects.create(queue=queue, held_gpu_s=3600, pending_gpu_s=0, price=2, gpu_quota_milli=0, **span)
        deleted_projects.remove_contents()
        project.refresh_from_db()
        assert "It waits for 1 run to stop." in project.waits_for
        kills = 0
        for number in count(1):
            tick()
            try:
                with killed_at_deletion(number):
                    deleted_projects.remove_contents()
            except Killed:
                kills += 1
            if Project.objects.filter(pk=project.pk, removed_at__isnull=False).exists():
                break
            move(clock.now() + timedelta(minutes=5))
            PoolSample.objects.update(ends_at=clock.now())
            assert number < 200, Project.objects.get(pk=project.pk).waits_for
        used = usage.list_consumption(actor=now_of("root"), since=clock.now() - timedelta(days=1))

    assert kills > 5
    assert what_is_left(project) == {}
    assert not Membership.objects.filter(project=project).exists()
    assert [(each.project, each.gpu_hours) for each in used] == [(f"team-a (deleted, {project.pk})", 1.0)]
    last = AuditEntry.objects.filter(project_id=project.pk).latest("pk")
    assert (last.action, last.target_name) == ("accounts.remove_project", "team-a")
    assert [row.name for row in selectors.list_deleted(actor=now_of("root"))] == ["bygone"]
    assert projects.create_project(actor=now_of("root"), name="team-a").pk != project.pk
    assert Dataset.objects.get(pk=kept.pk).commits.count() == 1
    assert (Job.objects.get(pk=job.pk).state, Workload.objects.filter(project=other).count()) == ("pending", 1)
    assert not Placement.objects.exists()


def test_what_cannot_be_removed_yet_says_on_what_it_waits_and_stops_no_other(everything):
    """The copy is read by a job of another project."""
    copy = CachedCommit.objects.get()
    hold = CacheHold.objects.create(cached_commit=copy, holder="job:elsewhere", why="read by a job")
    project = delete(for_good=True)

    with clock.frozen_at(clock.now()) as move:
        for _ in range(6):
            tick()
            deleted_projects.remove_contents()
            move(clock.now() + timedelta(minutes=20))
        project.refresh_from_db()
        assert project.waits_for == (
            "It waits for the objects of 1 dataset to leave the store, of which 1 cached commit leave first."
        )
        assert set(what_is_left(project)) == {"Dataset", "FileSource", "Membership", "Secret"}
        hold.delete()
        for _ in range(4):
            tick()
            deleted_projects.remove_contents()

    assert what_is_left(project) == {}


def test_the_time_to_restore_ends_by_itself(everything):
    project = delete()

    with clock.frozen_at(clock.now() + timedelta(days=7)):
        with pytest.raises(DeletedProjectNotFound):
            deletions.restore_project(actor=now_of("admin"), project=project)
        deleted_projects.remove_contents()

    assert Project.objects.get(pk=project.pk).restore_ends_at is None


def test_the_page_tells_what_happens_and_takes_the_typed_name_only(make_actor, project):
    admin, viewer = Client(), Client()
    admin.force_login(User.objects.get(pk=make_actor(Role.ADMIN).user_id))
    viewer.force_login(User.objects.get(pk=make_actor(Role.VIEWER).user_id))
    page = admin.get("/settings/projects/team-a/delete/").content.decode()
    wrong = admin.post("/settings/projects/team-a/delete/", {"confirmed": "team"})
    assert "2 members: they lose access to it." in page
    assert (wrong.status_code, Project.objects.get().deleted_at) == (400, None)

    told = admin.post("/settings/projects/team-a/delete/", {"confirmed": "team-a"}, follow=True).content.decode()

    assert "team-a is deleted. It can be restored until" in told
    for path in ("/settings/members/?project=team-a", "/datasets/team-a/xrays/", "/flows/team-a/digits/"):
        answers = [client.get(path, headers={"accept": "text/html"}) for client in (admin, viewer)]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert ["It can be restored until" in answer.content.decode() for answer in answers] == [True, False]
    admin.post("/settings/deleted-projects/team-a/restore/")
    assert Client().get("/settings/deleted-projects/").status_code == 302
    assert Project.objects.get().deleted_at is None
