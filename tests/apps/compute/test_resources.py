from functools import partial

import pytest

from accounts.errors import InvalidName, PermissionDenied
from accounts.models import AuditEntry
from accounts.permissions import Actor
from compute.adapters import drivers
from compute.adapters.scripted import ScriptedDriver
from compute.errors import (
    InvalidResource,
    ResourceExists,
    ResourceInUse,
    ResourceUnreachable,
    TemplateExists,
    TemplateNotFound,
)
from compute.models import Resource, Template
from compute.selectors import resources as resource_selectors
from compute.selectors import templates as template_selectors
from compute.selectors.resource_events import BACK, LOST
from compute.services import jobs, node_reports, resources, templates
from compute.services.templates import Shape
from compute.workers import probes
from core import clock, tasks
from core.remote_hosts import HostNotAttached
from scheduler.models import Gpu, Node, Workload
from tests.factories import compute as make
from tests.interleaving import happens_after

NODE = {
    "name": "n-1",
    "cpu_millicores": 8000,
    "memory_bytes": 2**34,
    "gpus": 2,
    "gpu_model": "A100",
    "gpu_memory_bytes": 2**36,
}


@pytest.fixture
def first(db, home):
    resources.ensure_first_resources(actor=Actor.system("test"))
    probes.probe_all()


def test_the_first_start_registers_this_machine_and_a_simulated_lab(first):
    found = {
        resource.name: (resource.kind, resource.is_simulated, resource.state) for resource in Resource.objects.all()
    }

    assert found == {"this-machine": ("local", False, "ready"), "lab": ("simulated", True, "ready")}


def test_this_machine_reads_the_local_cache_site(first, site_admin):
    machine = resource_selectors.get_resource(actor=site_admin, name="this-machine")

    assert machine.cache_site == "local"


def test_a_resource_that_is_no_host_is_told_by_its_name_and_kind(first):
    with pytest.raises(HostNotAttached, match=r"lab is no host reached by SSH: its kind is simulated\."):
        drivers.connect_host(Resource.objects.get(name="lab").pk)


def test_the_lab_has_two_nodes_with_eight_v100_each(first):
    nodes = Node.objects.filter(resource_name="lab", is_simulated=True).order_by("name")

    assert [(node.name, node.gpus.count()) for node in nodes] == [("lab-1", 8), ("lab-2", 8)]
    assert set(Gpu.objects.filter(node__in=nodes).values_list("model", "memory_bytes")) == {
        ("Tesla V100-SXM2-32GB", 32 * 2**30)
    }


def test_the_first_templates_have_their_shapes(first, member):
    small = template_selectors.get_template(actor=member, full_name="this-machine.small")
    medium = template_selectors.get_template(actor=member, full_name="this-machine.medium")
    gpus = {
        t.full_name: t.gpu_milli for t in template_selectors.list_templates(actor=member) if t.resource.is_simulated
    }

    assert (small.cpu_millicores, small.memory_bytes, small.gpu_milli) == (1000, 2**30, 0)
    assert (medium.cpu_millicores, medium.memory_bytes) == (2000, 4 * 2**30)
    assert gpus == {"lab.gpu-half": 500, "lab.gpu-1": 1000, "lab.gpu-8": 8000}


def test_a_second_start_changes_nothing(first):
    before = sorted(Template.objects.values_list("pk", flat=True))

    resources.ensure_first_resources(actor=Actor.system("test"))
    probes.probe_all()

    assert sorted(Template.objects.values_list("pk", flat=True)) == before
    assert Resource.objects.count() == 2


def test_what_an_admin_detached_does_not_come_back(first, site_admin):
    lab = resource_selectors.get_resource(actor=site_admin, name="lab")
    resources.detach_resource(actor=site_admin, resource=lab)

    resources.ensure_first_resources(actor=Actor.system("test"))
    probes.probe_all()

    assert [resource.name for resource in resource_selectors.list_resources(actor=site_admin)] == ["this-machine"]
    assert not Node.objects.filter(resource_name="lab").exists()


def test_nodes_that_a_resource_tells_while_it_is_detached_are_not_kept(resource, driver, site_admin, monkeypatch):
    def probe():
        resources.detach_resource(actor=site_admin, resource=resource)
        return ScriptedDriver.probe(driver)

    monkeypatch.setattr(driver, "probe", probe)
    probes.probe_resource(resource=resource)

    assert not Node.objects.exists()


def test_resources_that_say_nothing_new_take_one_statement_each_however_many_nodes_they_have(
    first, site_admin, django_assert_num_queries
):
    nodes = [NODE, {**NODE, "name": "n-2"}]
    resources.attach_resource(actor=site_admin, name="farm", kind="simulated", config={"nodes": nodes})
    before = list(Node.objects.order_by("pk").values_list("pk", "revision"))

    # The resources, their nodes and GPUs, and what failed before; of each its contact, between savepoint and release.
    with django_assert_num_queries(4 + 3 * Resource.objects.count()):
        probes.probe_all()

    assert list(Node.objects.order_by("pk").values_list("pk", "revision")) == before


def test_nodes_are_ready_again_also_where_their_resource_was_away_while_it_was_asked(resource, driver, monkeypatch):
    probes.probe_all()

    def probe():
        probes.note_unreachable(resource=Resource.objects.get(pk=resource.pk), error=ResourceUnreachable("It is away."))
        assert not Node.objects.get().is_ready
        return ScriptedDriver.probe(driver)

    monkeypatch.setattr(driver, "probe", probe)
    probes.probe_all()

    assert Node.objects.get().is_ready


def test_two_who_find_at_once_that_a_resource_is_lost_or_back_tell_it_once(resource):
    lost = ResourceUnreachable("It is away.")
    for row in [Resource.objects.get(pk=resource.pk) for _ in range(2)]:
        probes.note_unreachable(resource=row, error=lost)
    for row in [resource, *(Resource.objects.get(pk=resource.pk) for _ in range(2))]:
        node_reports.write_contact(row)

    assert list(AuditEntry.objects.order_by("pk").values_list("action", flat=True)) == [LOST, BACK]


def test_whoever_reads_that_a_resource_is_away_reads_why(resource, monkeypatch):
    read = []

    def record(*_, **__):
        read.append(Resource.objects.values_list("state", "error").get(pk=resource.pk))

    monkeypatch.setattr(probes.audit, "record", record)
    probes.note_unreachable(resource=resource, error=ResourceUnreachable("It is away."))

    assert read == [("unreachable", "It is away.")]


def test_a_detached_name_is_free_again(first, site_admin):
    lab = resource_selectors.get_resource(actor=site_admin, name="lab")
    resources.detach_resource(actor=site_admin, resource=lab)

    again = resources.attach_resource(actor=site_admin, name="lab", kind="simulated", config={"nodes": [NODE]})

    assert again.pk != lab.pk
    assert Node.objects.get(resource_id=again.pk).gpus.count() == 2


def test_templates_of_a_detached_resource_are_not_found(first, site_admin):
    resources.detach_resource(actor=site_admin, resource=resource_selectors.get_resource(actor=site_admin, name="lab"))

    with pytest.raises(TemplateNotFound):
        template_selectors.get_template(actor=site_admin, full_name="lab.gpu-1")


def test_this_machine_cannot_be_attached_twice(first, site_admin):
    with pytest.raises(ResourceExists, match="as 'this-machine'"):
        resources.attach_resource(actor=site_admin, name="again", kind="local")

    assert Resource.objects.count() == 2


@pytest.mark.parametrize(
    ("name", "kind", "declared", "error"),
    [
        ("lab", "simulated", [NODE], ResourceExists),
        ("Bad Name", "simulated", [NODE], InvalidName),
        ("new", "simulated", [], InvalidResource),
        ("new", "local", [NODE], InvalidResource),
        ("new", "simulated", [NODE, NODE], InvalidResource),
    ],
)
@pytest.mark.usefixtures("first")
def test_a_resource_that_makes_no_sense_is_refused(site_admin, name, kind, declared, error):
    with pytest.raises(error):
        resources.attach_resource(
            actor=site_admin, name=name, kind=kind, config={"nodes": declared} if declared else {}
        )

    assert Resource.objects.count() == 2


def test_a_kind_that_does_not_exist_is_refused_and_those_that_do_are_named(site_admin, home):
    with pytest.raises(
        InvalidResource,
        match=r"'floppy' is no kind of compute resource. There are: simulated, local, kubernetes, ssh, docker\.",
    ):
        resources.attach_resource(actor=site_admin, name="new", kind="floppy")

    assert not Resource.objects.exists()


def test_credentials_are_kept_encrypted():
    keys = {"token": "s3cr3t-value"}

    stored = drivers.encrypt(keys)

    assert b"s3cr3t" not in stored
    assert drivers.decrypt(stored) == keys
    assert (drivers.encrypt({}), drivers.decrypt(b"")) == (b"", {})


@pytest.mark.parametrize("kind", drivers.KINDS.values(), ids=lambda kind: kind.name)
def test_a_kind_without_credentials_refuses_them(site_admin, home, kind):
    with pytest.raises(InvalidResource):
        resources.attach_resource(actor=site_admin, name="new", kind=kind.name, credentials={"token": "s3cr3t"})

    assert not Resource.objects.exists()


def test_a_resource_with_jobs_that_have_not_ended_stays(project, template, resource, site_admin):
    [job] = make.submit(project, template, "train")

    with pytest.raises(ResourceInUse):
        resources.detach_resource(actor=site_admin, resource=resource)
    resource.refresh_from_db()
    attached = resource.detached_at is None
    jobs.cancel_many(actor=Actor.system("test"), job_ids=[job.pk], reason="Enough.")
    resources.detach_resource(actor=site_admin, resource=resource)

    resource.refresh_from_db()
    assert attached
    assert resource.detached_at is not None


def test_a_job_that_is_submitted_while_its_resource_is_detached_keeps_that_attached(
    project, template, resource, site_admin
):
    submit = partial(make.submit, project, template, "train")

    with happens_after("COUNT", submit), pytest.raises(ResourceInUse, match="1 job that has not ended"):
        resources.detach_resource(actor=site_admin, resource=resource)

    resource.refresh_from_db()
    assert resource.detached_at is None
    assert Node.objects.filter(resource_id=resource.pk, is_ready=True).exists()


def test_a_job_whose_submission_commits_once_its_resource_is_detached_ends_with_a_reason(project, template, resource):
    other, _ = make.make_resource("other")
    [job, *_] = make.submit(project, template, "train", "later")
    [elsewhere] = make.submit(project, make.make_template(other), "elsewhere")
    Resource.objects.filter(pk=resource.pk).update(detached_at=clock.now())

    tasks.run("compute.end_stranded", {})

    job.refresh_from_db()
    assert (job.state, job.reason_code, job.reason) == ("failed", "infrastructure", "scripted was detached.")
    assert Workload.objects.filter(state="pending").values_list("pk", flat=True).get() == elsewhere.workload_id


def test_only_a_site_admin_changes_resources_and_templates(resource, member):
    with pytest.raises(PermissionDenied):
        resources.attach_resource(actor=member, name="new", kind="simulated", config={"nodes": [NODE]})
    with pytest.raises(PermissionDenied):
        resources.detach_resource(actor=member, resource=resource)
    with pytest.raises(PermissionDenied):
        templates.create_template(actor=member, resource=resource, name="new", shape=Shape(1000, 2**30))

    resource.refresh_from_db()
    assert (Resource.objects.count(), resource.detached_at, Template.objects.count()) == (1, None, 0)


def test_a_template_is_added_once(resource, site_admin):
    created = templates.create_template(actor=site_admin, resource=resource, name="half", shape=Shape(1000, 2**30, 500))

    with pytest.raises(TemplateExists):
        templates.create_template(actor=site_admin, resource=resource, name="half", shape=Shape(2000, 2**30))

    assert Template.objects.get() == created
    assert AuditEntry.objects.filter(action="compute.create_template").count() == 1


@pytest.mark.parametrize("shape", [Shape(0, 2**30), Shape(1000, 0), Shape(1000, 1, -1), Shape(1000, 1, 1500)])
def test_a_template_that_makes_no_sense_is_refused(resource, site_admin, shape):
    with pytest.raises(InvalidResource):
        templates.create_template(actor=site_admin, resource=resource, name="odd", shape=shape)

    assert not Template.objects.exists()
