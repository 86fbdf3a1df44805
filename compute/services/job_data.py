"""The datasets of a job: asked for on a cache site of its resource, and held there until the job has ended."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from accounts.actor import Actor
from compute.engine.job_spec import JobSpec, Mount, SourceKind, Tree, source_from_json
from compute.engine.states import Gate
from compute.models import Job, JobVolume, Resource
from compute.selectors import resources
from compute.selectors.jobs import HOLDER
from core.prepared import insert
from datasets.services import caches


def request(
    actor: Actor, resource: Resource, commits: Sequence[Any], *, job_id: str, job_name: str, purpose: str = ""
) -> list[Any]:
    """Ask for commits where jobs of a resource read them, hold them there for a job, and return the cached commits.

    What is held for a `purpose` is held beside what the job itself holds. Raises what `caches.request_nearest` raises.
    """
    sites = resources.list_readable_sites(resource) if commits else []
    holder, why = f"{HOLDER}{job_id}{purpose}", f"read by {job_name}"
    return [
        caches.request_nearest(actor=actor, commit=commit, sites=sites, holder=holder, why=why) for commit in commits
    ]


def release(actor: Actor, job_id: str, *, purpose: str = "", keep: Sequence[Any] = ()) -> None:
    """End what a job holds, but for the cached commits to `keep`."""
    caches.release_holds(actor=actor, holder=f"{HOLDER}{job_id}{purpose}", keep=[copy.pk for copy in keep])


def mount(spec: JobSpec, copies: Sequence[Any], *, is_early: bool) -> tuple[JobSpec, Gate | None]:
    """Return what a job is that reads these cached commits, and the gate that it waits behind until they are ready.

    While the place of one is not known, its mount says which tree it will hold. `is_early`: the job starts once the
    first files are there.
    """
    sources = [copy.early_source if is_early else copy.source for copy in copies]
    mounts = [
        Mount(
            copy.dataset.name,
            Tree(copy.dataset_id, copy.commit.root) if source is None else source_from_json(source),
        )
        for copy, source in zip(copies, sources, strict=True)
    ]
    early = {copy.dataset.name: copy.pk for copy in copies} if is_early else {}
    return replace(spec, data=tuple(mounts), early=early), None if all(sources) else Gate.DATA


def describe_wait(resource: Resource) -> str:
    """Say that a job waits for its data."""
    return f"Its data is being brought to {resource.name}."


def note_volumes(jobs: Sequence[Job]) -> None:
    """Note by which claims jobs read their data."""
    sources = ((job, mount["source"]) for job in jobs for mount in job.spec["data"])
    claims = {(job.pk, source["claim"]) for job, source in sources if source["kind"] == SourceKind.VOLUME}
    insert([JobVolume(job_id=job_id, claim=claim) for job_id, claim in sorted(claims)])
