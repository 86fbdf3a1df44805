"""The platform without its web pages: leader loop, queue, watcher, local driver. It runs one flow and is killed a lot.

`flow_process.py start FLOW_FILE` makes everything, starts a run, prints its id and exits; `flow_process.py serve RUN`
works until the run has ended. A killed `serve` is simply started again.
"""

# ruff: noqa: E402, T201 (Django wants to be set up first; the answers are lines on stdout)

import os
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "platform"), str(ROOT / "client" / "src")]
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

import django

django.setup()

from django.core.management import call_command

from accounts.actor import Actor
from accounts.services import projects
from compute.models import Resource, Template
from compute.workers import probes, watch
from config import leader, recovery
from core import tasks
from core.local_queue import LocalQueue
from flows.models import Run
from flows.services import flows, runs

SYSTEM = Actor.system("drill")


def start(flow_file: str) -> None:
    """Make a project, this machine with capacity for many small jobs, and a run."""
    call_command("migrate", run_syncdb=True, verbosity=0)
    project = projects.create_project(actor=SYSTEM, name="demo")
    machine = Resource.objects.create(name="this-machine", kind="local")
    Template.objects.create(resource=machine, name="tiny", cpu_millicores=100, memory_bytes=2**26)
    probes.probe_resource(resource=machine)
    version = flows.save_version(actor=SYSTEM, project=project, text=Path(flow_file).read_text())
    print(runs.start_run(actor=SYSTEM, version=version, parameters={}).pk)


def serve(run_id: str) -> None:
    """Do what `manage.py up` does beside serving pages, until the run has ended."""
    stop, queue = threading.Event(), LocalQueue()
    tasks.install(queue)
    queue.start()
    recovery.void_leases()
    threads = [
        threading.Thread(target=leader.lead, args=(queue, stop), daemon=True),
        threading.Thread(target=watch.watch_forever, args=(stop,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    while Run.objects.filter(pk=run_id, finished_at=None).exists():
        stop.wait(0.2)
    stop.set()
    queue.stop(timeout_s=5)


if __name__ == "__main__":
    {"start": start, "serve": serve}[sys.argv[1]](sys.argv[2])
