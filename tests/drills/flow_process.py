"""The platform without its web pages: leader loop, queue, watcher, local driver. It runs one flow and is killed a lot.

`flow_process.py start FLOW_FILE` makes everything, starts a run, prints its id and exits; `flow_process.py serve RUN`
works until the run has ended. A killed `serve` is simply started again.
"""

# ruff: noqa: E402, T201 (Django wants to be set up first; the answers are lines on stdout)

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "platform"), str(ROOT / "client" / "src")]
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

import django

django.setup()

from django.core.management import call_command

from accounts.permissions import Actor
from accounts.services import projects
from compute.models import Resource, Template
from compute.workers import probes
from flows.models import Run
from flows.services import flows, runs
from tests.drills.serving import serve

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


if __name__ == "__main__":
    if sys.argv[1] == "start":
        start(sys.argv[2])
    else:
        serve(Run.objects.filter(pk=sys.argv[2], finished_at=None).exists)
