"""Moving what earlier versions kept in the home folder into the database.

Repeatable: the old files of a resource are removed once all of its jobs are in the database.
"""

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings

from compute.models import Resource, SimulatedJob
from core import hosts


def move_simulated_jobs() -> None:
    """Move the jobs of simulated resources, which were a file each, so that those that run go on."""
    for folder in sorted((Path(settings.NEARLINE.home) / "simulated").glob("*")):
        resource = Resource.objects.filter(pk=folder.name.rpartition("-")[2]).first()
        if resource is not None:
            SimulatedJob.objects.bulk_create(_read_jobs(resource, folder), ignore_conflicts=True, batch_size=500)
            shutil.rmtree(folder)


def bind_machine() -> None:
    """Take the machine that an earlier version attached for the host whose home folder has the files of its jobs."""
    jobs = Path(settings.NEARLINE.home) / "jobs"
    if settings.NEARLINE.is_embedded or any(jobs.glob("*")):
        Resource.objects.filter(host=hosts.UNBOUND).update(host=hosts.this_host())


def _read_jobs(resource: Resource, folder: Path) -> Iterator[SimulatedJob]:
    for state in ("live", "ended"):
        for path in sorted((folder / state).glob("*.json")):
            facts = json.loads(path.read_bytes())
            facts["started_at"], facts["stopped_at"] = _moment(facts["started_at"]), _moment(facts["stopped_at"])
            yield SimulatedJob(resource=resource, is_forgotten=state == "ended", **facts)


def _moment(seconds: Any) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
