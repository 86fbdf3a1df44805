"""A cluster that goes away in the middle of its jobs and comes back; and what other clusters notice of it."""

import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from compute.adapters import drivers
from compute.models import Job, Resource
from compute.workers import launches, observe, watch
from core import clock
from tests.factories import compute as make
from tests.factories.browsers import browser_of
from tests.kubernetes.api import LIMIT_S
from tests.kubernetes.attached import CONFIG, attached
from tests.kubernetes.conftest import running_control_plane
from tests.kubernetes.programs import missing_for_control_plane
from tests.ports import reserve_port

pytestmark = [
    pytest.mark.skipif(bool(missing_for_control_plane()), reason=missing_for_control_plane()),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def home(settings, tmp_path):
    settings.NEARLINE = replace(settings.NEARLINE, home=tmp_path)


def declare(name, server):
    """Write down a resource whose cluster nobody can reach."""
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    credentials = drivers.encrypt({"kubeconfig": str(kubeconfig).replace("'", '"')})
    return Resource.objects.create(name=name, kind="kubernetes", config=CONFIG, credentials=credentials)


def turn_until(holds):
    """Let the platform start and observe jobs until something holds."""
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, list(Job.objects.values_list("name", "state", "reason"))
        launches.start_placed_jobs()
        observe.observe_all()


def count(*states):
    return Job.objects.filter(state__in=states).count()


def is_lost(resource):
    return Resource.objects.get(pk=resource.pk).is_lost


def simulate(number):
    """Let one job in four run for ever, and the others for some seconds."""
    return {"SIMULATED_END": "never"} if number % 4 == 0 else {"SIMULATED_RUN_TIME": f"{number % 5 + 1}s"}


def pods_of(control_plane, resource):
    pods = control_plane.api.list(f"/api/v1/namespaces/{resource.config['namespace']}/pods")
    return {pod["metadata"]["annotations"]["nearline.dev/name"]: pod["metadata"]["uid"] for pod in pods}


def test_jobs_of_a_cluster_that_is_killed_and_comes_back_are_neither_lost_nor_doubled(home, project, site_admin):
    with running_control_plane() as control_plane, attached(control_plane, site_admin) as (resource, template):
        jobs = [make.submit(project, template, f"job-{number}", env=simulate(number))[0] for number in range(60)]
        make.place(jobs[:40])
        turn_until(lambda: count("succeeded") >= 10 and count("running") >= 10)
        before = pods_of(control_plane, resource)

        control_plane.kill_api_server()
        make.place(jobs[40:])
        turn_until(lambda: is_lost(resource) and not count("pending"))
        states = list(Job.objects.order_by("pk").values_list("state", flat=True))
        with clock.frozen_at(clock.now() + 10 * launches.LEASE):
            observe.observe_all()

        assert set(states) == {"succeeded", "running", "starting"}
        assert list(Job.objects.order_by("pk").values_list("state", flat=True)) == states

        control_plane.start_api_server()
        turn_until(lambda: not is_lost(resource))
        with clock.frozen_at(clock.now() + 2 * launches.LEASE):
            observe.observe_all()
        # By a clock that goes on: a start that the cluster does not answer is tried again once its lease has run out.
        turn_until(lambda: (count("succeeded"), count("running"), is_lost(resource)) == (45, 15, False))
        after = pods_of(control_plane, resource)

    assert len(after) == 60
    assert {name: after[name] for name in before} == before


def test_a_cluster_that_never_answers_and_one_that_refuses_slow_no_other(control_plane, home, project, site_admin):
    browser = browser_of(site_admin)
    with ExitStack() as opened:
        address, asked = opened.enter_context(black_hole())
        declare("hole", address)
        declare("refuses", f"https://127.0.0.1:{reserve_port()}")
        # Younger than these, so that it is observed after them.
        _, template = opened.enter_context(attached(control_plane, site_admin))
        turn_until(lambda: Resource.objects.filter(state="unreachable").count() == 2)
        browser.get("/compute/")
        stop = threading.Event()
        watcher = threading.Thread(target=watch.watch_forever, args=(stop,))
        watcher.start()
        try:
            asked.clear()
            turn_until(lambda: len(asked) >= 2)  # so that pauses pass after which a call would be let through
            [job] = make.submit(project, template, "quick")
            make.place([job])
            turn_until(lambda: make.state_of(job) == "succeeded")
            assert browser.get("/compute/").status_code == 200
        finally:
            stop.set()
            watcher.join()

        # By the thread that finds out whether it answers again. Whoever asked for anything else waited in vain.
        assert set(asked) == {"/version"}


@contextmanager
def black_hole():
    """Take calls and answer none; yield the address and the paths that are asked for."""
    asked, stop = [], threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            stop.wait()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            stop.set()
            server.shutdown()
