"""A machine belongs to one host: its controller alone starts, watches and stops what runs there."""

import io
from dataclasses import replace
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from accounts.errors import PermissionDenied
from accounts.permissions import Actor
from compute.adapters import drivers
from compute.engine.ports import EndCause
from compute.errors import PortRefused, ResourceExists, ResourceUnreachable
from compute.models import Job, Resource, ResourceSite
from compute.selectors import jobs as job_selectors
from compute.services import connections, jobs, lost_places, resources
from compute.workers import launches, moves, observe, outputs, probes
from core import clock, hosts
from core.errors import InvalidInput
from datasets.models import CacheSite
from scheduler.models import Node, Placement
from tests.factories import compute as make
from tests.factories.api import call
from tests.factories.browsers import browser_of


@pytest.fixture
def machine(db, home, on_host):
    """The machine of host `b`, of which this process, on another host, knows."""
    with on_host("b"):
        hosts.take(holder="bee:1")
        resource, driver = make.make_resource("bee", home)
        Resource.objects.filter(pk=resource.pk).update(kind="local", host="b")
        resource.refresh_from_db()
        drivers.install(resource, driver)
    return resource, driver


@pytest.fixture(autouse=True)
def _full(settings):
    """Several hosts are there in the full installation only, which has a broker."""
    settings.NEARLINE = replace(settings.NEARLINE, broker_url="redis://127.0.0.1:1", host_id="a")


def test_a_placed_job_is_started_by_its_host_and_by_no_other(machine, project, on_host):
    resource, driver = machine
    [job] = make.submit(project, make.make_template(resource), "train")
    make.place([job])

    launches.start_placed_jobs()
    elsewhere = make.state_of(job)
    with on_host("b"):
        launches.start_placed_jobs()

    assert (elsewhere, make.state_of(job)) == ("pending", "starting")
    assert [report.name for report in driver.list_jobs()] == ["train"]


def test_another_host_does_not_take_a_job_for_lost_that_it_does_not_know(machine, project, on_host):
    resource, _ = machine
    [job] = make.submit(project, make.make_template(resource), "train")
    with on_host("b"):
        make.start([job])

    with clock.frozen_at(clock.now() + timedelta(hours=1)):
        observe.observe_each([resource.pk])
        observe.observe_all()

    assert make.state_of(job) == "running"


def test_a_cancelled_job_is_stopped_by_its_host(machine, project, on_host):
    resource, driver = machine
    [job] = make.submit(project, make.make_template(resource), "train")
    with on_host("b"):
        make.start([job])
    jobs.cancel_many(actor=Actor.system("test"), job_ids=[job.pk], reason="Enough.")

    launches.stop_ending_jobs()
    [before] = driver.list_jobs()
    with on_host("b"):
        launches.stop_ending_jobs()
    [after] = driver.list_jobs()

    assert (before.state, after.state, after.cause) == ("running", "failed", EndCause.STOPPED)


def test_while_its_host_is_away_a_machine_is_unreachable_and_its_jobs_stay_as_they_are(machine, project, on_host):
    resource, _ = machine
    [job] = make.submit(project, make.make_template(resource), "train")
    with on_host("b"):
        make.start([job])

    with clock.frozen_at(clock.now() + timedelta(minutes=2)):
        probes.probe_all()
        resource.refresh_from_db()
        away = (resource.state, resource.error)
        with on_host("b"):
            hosts.take(holder="bee:2")
            probes.probe_all()
        resource.refresh_from_db()

    assert away == (
        "unreachable",
        "Its host bee is away: no controller runs there. How its jobs stand is unknown until one does.",
    )
    assert (resource.state, make.state_of(job)) == ("ready", "running")


def test_a_log_is_read_on_its_host_by_asking_it(machine, project, viewer, on_host):
    resource, driver = machine
    [job] = make.submit(project, make.make_template(resource), "train")
    with on_host("b"):
        make.start([job])
    driver.print("train", "epoch 1\n")

    class Calls:
        def ask(self, host, name, facts):
            with on_host(host):
                return hosts.answer(name, facts)

    before = hosts.install_calls(Calls())
    try:
        chunk = job_selectors.read_log(actor=viewer, job=job_selectors.get_job(actor=viewer, name="train"))
    finally:
        hosts.install_calls(before)

    assert chunk.data == b"epoch 1\n"


def test_the_log_of_a_job_on_a_host_that_is_away_cannot_be_read_before_it_is_stored(machine, project, viewer, on_host):
    resource, _ = machine
    [job] = make.submit(project, make.make_template(resource), "train")
    with on_host("b"):
        make.start([job])

    with (
        clock.frozen_at(clock.now() + timedelta(minutes=2)),
        pytest.raises(ResourceUnreachable, match="bee is on the host bee, whose controller alone drives it"),
    ):
        job_selectors.read_log(actor=viewer, job=job_selectors.get_job(actor=viewer, name="train"))


def test_a_machine_of_an_earlier_version_is_taken_by_the_host_that_has_its_jobs(db, home):
    resource = Resource.objects.create(name="this-machine", kind="local", host=hosts.UNBOUND)

    moves.bind_machine()
    without_jobs = Resource.objects.get(pk=resource.pk).host
    (home / "jobs" / "train").mkdir(parents=True)
    moves.bind_machine()

    assert (without_jobs, Resource.objects.get(pk=resource.pk).host) == (hosts.UNBOUND, "a")


def test_a_machine_is_attached_on_the_host_that_is_named_where_there_are_several(db, home, site_admin, on_host):
    for host, name in (("a", "ant"), ("b", "bee")):
        with on_host(host):
            hosts.take(holder=f"{name}:1")

    with pytest.raises(InvalidInput, match=r"There are several hosts. Name one of these: ant \(a\), bee \(b\)\."):
        resources.attach_resource(actor=site_admin, name="box", kind="local")
    box = resources.attach_resource(actor=site_admin, name="box", kind="local", host="bee")
    with pytest.raises(ResourceExists):
        resources.attach_resource(actor=site_admin, name="again", kind="local", host="b")
    mine = resources.attach_resource(actor=site_admin, name="mine", kind="local", host="ant")

    assert (box.host, mine.host) == ("b", "a")
    assert Resource.objects.count() == 2


def test_the_page_and_the_api_say_on_which_host_a_machine_is(machine, site_admin):
    client = browser_of(site_admin)

    page = client.get("/compute/").content.decode()
    listed = call(site_admin, "GET", "/compute/resources").body

    assert '<span class="tag">on bee</span>' in page
    assert [(item["name"], item["host"]) for item in listed["items"]] == [("bee", "bee")]


def test_the_form_asks_for_a_host_where_there_are_several(machine, site_admin, on_host):
    client = browser_of(site_admin)
    one = client.get("/compute/attach/").content.decode()
    with on_host("a"):
        hosts.take(holder="ant:1")

    several = client.get("/compute/attach/").content.decode()

    assert ('name="host"' in one, 'name="host"' in several) == (False, True)
    assert "bee (b)" in several


def test_a_port_of_a_job_of_another_host_is_refused_with_the_name_of_that_host(machine, project, member, on_host):
    resource, _ = machine
    [job] = make.submit(project, make.make_template(resource), "serves")
    with on_host("b"):
        make.start([job])
    job.refresh_from_db()

    with pytest.raises(PortRefused) as refused:
        connections.offer_port(actor=member, job=job, port=8888)

    assert refused.value.message == (
        "Ports of jobs can be reached on clusters and on the platform's own machine; "
        "bee is on the host bee, and this is another one."
    )


@pytest.fixture
def lost(machine, project, on_host):
    """Host `b` is away for good. There one job ran and one waits, one had succeeded, and a cache site has its folder."""
    resource, driver = machine
    ran, ended, waits = make.submit(project, make.make_template(resource), "ran", "ended", "waits")
    with on_host("b"):
        make.start([ran, ended])
        (driver.open_output("ended").host_folder / "model.bin").write_text("weights")
        driver.finish("ended")
        observe.observe_resource(resource_id=resource.pk)
    CacheSite.objects.create(name="bees", root="/bees", host="b", capacity_bytes=100)
    ResourceSite.objects.create(resource=resource, site="bees", position=0)
    with clock.frozen_at(clock.now() + timedelta(minutes=2)):
        yield resource, ran, waits


def give_up(*arguments: str) -> list[str]:
    out = io.StringIO()
    call_command("give_up_host", *arguments, stdout=out)
    return out.getvalue().splitlines()


def test_what_is_lost_with_a_host_is_said_first_and_nothing_is_changed(lost):
    _, ran, waits = lost

    lines = give_up("bee")

    assert lines == [
        "resources    bee are detached",
        "jobs         1 that started are lost",
        "jobs         1 that wait there fail",
        "logs         2 keep only what the store has",
        "outputs      1 that are not stored are lost",
        "cache site   bees is removed, with 0 cached commits (0 B)",
        "Nothing was changed. Add --yes to give the host up; that cannot be undone.",
    ]
    assert (make.state_of(ran), make.state_of(waits)) == ("running", "pending")
    assert (CacheSite.objects.count(), Resource.objects.get().detached_at) == (1, None)
    assert [host.name for host in hosts.list_hosts().values()] == ["bee"]


def test_what_waits_for_a_host_that_is_given_up_ends_and_its_capacity_is_free(lost):
    _, ran, waits = lost

    lines = give_up("b", "--yes")

    ran.refresh_from_db()
    assert lines[-1] == "The host bee is given up. Empty its home folder before it starts again."
    assert (ran.state, ran.reason_code, ran.reason) == ("lost", "infrastructure", "The host bee was given up.")
    assert make.state_of(waits) == "failed"
    assert not Placement.objects.exists()
    assert not Node.objects.exists()
    assert not CacheSite.objects.exists()
    assert not ResourceSite.objects.exists()
    assert Resource.objects.get().detached_at == clock.now()
    assert hosts.list_hosts() == {}
    assert not Job.objects.filter(log_stored_at=None).exists()


def test_a_run_no_longer_waits_for_outputs_on_a_host_that_is_given_up(lost):
    ended = Job.objects.get(name="ended")
    give_up("bee", "--yes")

    stored = outputs.store_output(Job.objects.get(pk=ended.pk), patterns=["**"])

    assert stored == outputs.Stored(0, "The outputs are lost: the files of the job are gone.")


def test_the_pages_of_what_is_on_a_host_that_is_away_say_by_which_command_it_is_given_up(lost, site_admin, member):
    probes.probe_all()
    command = "manage.py give_up_host bee"

    page = browser_of(site_admin).get("/compute/bee/").content.decode()
    assert f'<code tabindex="0">{command}</code>' in page
    assert "/give-up/" not in page
    assert command not in browser_of(member).get("/compute/bee/").content.decode()

    words = (
        "Its host bee is away: no controller runs there, and nothing is cached or removed until one does. "
        f"A host that never comes back is given up by `{command}`."
    )
    [told] = [site["error"] for site in call(member, "GET", "/cache/sites").body["items"] if site["name"] == "bees"]
    assert told == words
    assert words in browser_of(site_admin).get("/cache/?site=bees").content.decode()


def test_a_host_that_reports_is_not_given_up(lost, on_host):
    _, ran, waits = lost
    with on_host("b"):
        hosts.take(holder="bee:2")

    with pytest.raises(CommandError, match="The host bee is not away: a controller reports from there"):
        give_up("bee", "--yes")

    assert (make.state_of(ran), make.state_of(waits)) == ("running", "pending")
    assert (CacheSite.objects.count(), Resource.objects.get().detached_at) == (1, None)


def test_a_host_that_nobody_knows_is_not_given_up(lost):
    with pytest.raises(CommandError, match=r"There is no single host called 'cat'. Name one of these: bee \(b\)"):
        give_up("cat", "--yes")


def test_where_no_host_has_reported_none_is_given_up(db):
    with pytest.raises(CommandError, match=r"There is no single host called 'bee'\. No host has reported\."):
        give_up("bee")


def test_only_site_admins_give_up_hosts(lost, member):
    with pytest.raises(PermissionDenied):
        lost_places.give_up_host(actor=member, host="bee")

    assert Resource.objects.get().detached_at is None
