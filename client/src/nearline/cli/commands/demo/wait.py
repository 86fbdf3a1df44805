"""Why a job waits, until when, and whether elsewhere would be better: told, and then compared with what happens."""

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearline.cli import formats
from nearline.cli.commands.demo.looking import is_free, wait_for
from nearline.cli.outlook import show_outlook
from nearline.cli.output import align
from nearline.cli.session import session_of
from nearline.errors import Conflict, Failed
from nearline.resources.queues import change_of

if TYPE_CHECKING:
    from nearline.client import Client
    from nearline.models import Job

NAME = "wait"
_NEAR, _FAR = f"{NAME}-near", f"{NAME}-far"
_OWNER, _TEAM = f"{NAME}-team-d", f"{NAME}-team-a"
_DATASET = f"{_TEAM}/scans"
_NODES = {"nodes": "1", "cpu": "64", "memory": "256GiB", "gpus": "2", "gpu_model": "A100", "gpu_memory": "40GiB"}
_RATES = {_NEAR: 40_000, _FAR: 10_000}
"""Bytes that the cache site of a cluster takes in a second, as it declares."""

_SITE_BYTES = 10**9
_THERE_BYTES, _MISSING_BYTES = 800_000, 400_000
_HELD_S, _RUN_S = 45.0, 10.0


def walk(
    context: typer.Context,
    limit_s: Annotated[float, typer.Option("--limit", min=1, metavar="SECONDS", help="For each state.")] = 120,
) -> None:
    """Tell why a job waits, and compare with what happens.

    Two simulated clusters have two GPUs and a cache site each. On the near one another team holds the GPUs, and a part
    of the job's data is there. It takes a minute and a half. For site admins.
    """
    session = session_of(context)
    out, client = session.out, session.client()
    _prepare(client)
    near, far = (f"{formats.size(_RATES[cluster])}/s" for cluster in (_NEAR, _FAR))
    out.line(f"Two simulated clusters of 2 GPUs. The cache site of {_NEAR} takes {near}, that of {_FAR} {far}.")
    _commit(client, "monday", _THERE_BYTES)
    out.line(f"{formats.size(_THERE_BYTES)} of {_DATASET} are cached on {_NEAR} ...")
    client.caches.wait(client.datasets.cache(_DATASET, site=_site_of(_NEAR)), timeout_s=limit_s)
    _commit(client, "tuesday", _MISSING_BYTES)
    out.line(f"{formats.size(_MISSING_BYTES)} are added. {_OWNER}, whose quota it is, uses both GPUs of {_NEAR}.\n")
    holder = _submit(client, _OWNER, _HELD_S)
    wait_for(lambda: client.jobs.get(holder).state == "running" or None, limit_s)
    waiting = _submit(client, _TEAM, _RUN_S, data=[_DATASET])
    outlook = wait_for(lambda: _outlook_of(client.jobs.get(waiting)), limit_s)
    out.line(f"nearline job why {waiting}\n")
    show_outlook(out, outlook)
    out.line("\nThat is what was told. What happens is compared when the job is done ...\n")
    ended = wait_for(lambda: _done(client, waiting), limit_s)
    compared = compare(outlook, client.jobs.get(holder), ended)
    rows = [(what, f"{then:%H:%M:%S}", f"{actual:%H:%M:%S}") for what, then, actual in compared]
    out.line("\n".join(align([("", "TOLD", "HAPPENED"), *rows])))
    if out.is_json:
        moments = [{"what": what, "told": str(then), "happened": str(actual)} for what, then, actual in compared]
        out.json({"text": outlook["text"], "is_simulated": True, "moments": moments})


def _prepare(client: "Client") -> None:
    """Make what is not there yet. Raises Conflict where an earlier walk goes on."""
    known = {project.name for project in client.projects.list()}
    for project in {_OWNER, _TEAM} - known:
        client.projects.create(project, description="Made by `nearline demo`.")
    client.folders.ensure(client.datasets.parse(_DATASET))
    sites = {site.name for site in client.caches.list_sites()}
    clusters = {resource.name for resource in client.compute.list()}
    templates = {template.full_name for template in client.compute.list_templates()}
    for cluster, rate in _RATES.items():
        site = _site_of(cluster)
        if site not in sites:
            client.caches.create_site(site, "simulated", settings={"size_bytes": _SITE_BYTES, "rate_bytes_s": rate})
        if cluster not in clusters:
            client.compute.attach(cluster, "simulated", settings=_NODES, sites=[site])
        if _template_of(cluster) not in templates:
            shape = {"cpu_millicores": 8000, "memory_bytes": 2**35, "gpu_milli": 2000}
            client.compute.add_template(_template_of(cluster), **shape)
    pools = {pool.name: pool for pool in client.pools.list()}
    if NAME not in pools:
        client.pools.create(NAME, [*_RATES])
    elif missing := _RATES.keys() - pools[NAME].resources:
        client.pools.move(NAME, sorted(missing))
    client.queues.set_many([change_of(_OWNER, gpu_quota_milli=2000), change_of(_TEAM, gpu_quota_milli=0)], pool=NAME)
    if not is_free(client, NAME):
        raise Conflict(f"The pool {NAME} is in use, by an earlier walk perhaps.", hint="Try again in a minute.")


def _commit(client: "Client", name: str, size_bytes: int) -> None:
    """Replace a file of the dataset by another of new content, so that its bytes are on no site yet."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.bin")
        path.write_bytes(os.urandom(size_bytes))
        client.folders.put(_DATASET, [path], message=name)


def _submit(client: "Client", project: str, duration_s: float, data: Sequence[str] = ()) -> str:
    """Submit a job that takes two GPUs of the near cluster, and return its name."""
    job = client.jobs.submit(
        project=project,
        name=f"{project}-{time.strftime('%H%M%S')}",
        command="train",
        template=_template_of(_NEAR),
        data=data,
        simulated_duration_s=duration_s,
    )
    return job.name


def _outlook_of(job: "Job") -> Mapping[str, Any] | None:
    """Return what is told of a job once it says who holds the GPUs and compares the other cluster."""
    outlook = job.raw.get("outlook")
    return outlook if outlook and outlook["holders"] and len(outlook["places"]) == len(_RATES) else None


def _place_of(outlook: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the place where the job waits."""
    return next(place for place in outlook["places"] if place["is_chosen"])


def _done(client: "Client", name: str) -> "Job | None":
    job = client.jobs.get(name)
    if job.state in {"failed", "cancelled"}:
        raise Failed(f"{name} has {job.state}: {job.reason}")
    return job if job.state == "succeeded" else None


def compare(outlook: Mapping[str, Any], holder: "Job", done: "Job") -> list[tuple[str, datetime, datetime]]:
    """Return what was told, the moment that was told for it, and the moment when it happened.

    Nothing is told of data that was there by then.
    """
    place = _place_of(outlook)
    arrived = next(event["at"] for event in done.raw["events"] if event["message"].startswith("Its data is ready."))
    pairs = [
        ("Its data is there", place["data"]["ready_at"], arrived),
        ("The GPUs are free", outlook["holders"][0]["ends_at"], holder.raw["finished_at"]),
        ("It starts", outlook["likely_at"], done.raw["started_at"]),
        ("It is done", place["finishes_at"], done.raw["finished_at"]),
    ]
    return [(what, _moment(then), _moment(actual)) for what, then, actual in pairs if then is not None]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone()


def _site_of(cluster: str) -> str:
    return f"{cluster}-site"


def _template_of(cluster: str) -> str:
    return f"{cluster}.two"
