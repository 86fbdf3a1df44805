"""Does what a platform does in the moment before it is killed: takes everything for itself, and goes no further.

`last_deeds.py COMMIT_REFERENCE FLOW_FILE` asks for the commit, takes up its hydration, starts a run of the flow,
claims its first jobs without handing one to a driver, takes the run itself, and kills itself. Its leases last for hours:
who waits for them to run out waits in vain.
"""

# ruff: noqa: E402, T201 (Django wants to be set up first; the answer is a line on stdout)

import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import django

django.setup()

from accounts.models import Project
from accounts.permissions import Actor
from compute.models import Job
from compute.workers import launches
from core import clock, leases
from datasets.models import CachedCommit
from datasets.selectors import caches as cache_reads
from datasets.selectors.datasets import resolve
from datasets.services import caches
from datasets.workers import cache_hydration
from flows.models import Run
from flows.services import flows, runs
from flows.workers import advance
from scheduler.selectors.workloads import find_unclaimed
from scheduler.workers import cycle

SYSTEM = Actor.system("drill")
_FAR_AHEAD = timedelta(seconds=leases.LONGEST_S)


def main(reference: str, flow_file: str) -> None:
    """Leave everything in the middle."""
    until = clock.now() + _FAR_AHEAD
    row = caches.request_cache(
        actor=SYSTEM, commit=resolve(SYSTEM, reference).commit, site=cache_reads.get_site(actor=SYSTEM)
    )
    cache_hydration._claim(row.pk)
    project = Project.objects.get(name=reference.partition("/")[0])
    version = flows.save_version(actor=SYSTEM, project=project, text=Path(flow_file).read_text())
    run = runs.start_run(actor=SYSTEM, version=version, parameters={})
    advance.advance_run(run.pk)
    cycle.run_once()
    claimed = launches._claim(list(find_unclaimed()[0].order_by("pk").values_list("pk", flat=True)))
    leases.take(Run.objects.filter(pk=run.pk), for_s=leases.LONGEST_S)
    CachedCommit.objects.update(lease_expires_at=until)
    Job.objects.filter(pk__in=claimed).update(lease_expires_at=until, starts=launches._MOST_STARTS)
    Run.objects.update(lease_expires_at=until)
    for name in ("leader", "scheduler.cycle"):
        leases.take_named(name, holder="dead", for_s=leases.LONGEST_S)
    print(row.pk, run.pk, len(claimed), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
