"""One of everything that a route can be asked for, and somebody in every role who asks."""

import io
import json
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings
from django.test import Client, TestCase

from accounts.models import Membership, Project, User
from accounts.permissions import Actor, Role
from accounts.selectors import actor_of
from accounts.services import deletions, projects, secrets, tokens
from compute.engine.port_hosts import PortHost
from compute.models import Job, Resource, ResourceState
from compute.selectors import outputs
from core import clock, tasks
from core.encryption import encrypt
from datasets.engine.queries import Conditions
from datasets.models import FileSource, ImportState, InPlaceImport, SiteArray, UploadSession
from datasets.services import branches, cache_sites, caches, datasets, queries, sources, upload_parts, uploads
from experiments.models import Experiment
from experiments.services import recording, saved_views
from flows.models import Run
from flows.services import bundles, drafts, flows
from flows.services.drafts import Writing
from scheduler.models import DEFAULT_POOL_ID, Node, Pool, Queue
from scheduler.services import pool_members
from tests.architecture.routes import bundle, part
from tests.factories import datasets as dataset_factory
from tests.factories.compute import submit
from tests.factories.flows import World as Machines
from tests.factories.flows import newest_attempt

ROLES = ("nobody", "stranger", "viewer", "member", "admin", "root")
FLOW = """
flow: digits
steps: [{name: train, command: "true", outputs: ["*.txt"], compute: [this-machine.small]}]
"""


@dataclass
class Asker:
    """Somebody in a role, and how they show who they are to the API and to pages."""

    actor: Actor | None
    token_id: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    session: str = ""


@dataclass
class World:
    """The askers, and the names and ids of what they can ask for."""

    askers: dict[str, Asker]
    values: dict[str, str]
    client: Client = field(default_factory=Client)


def build(folder: Path) -> World:
    """Make project `team-a` with a dataset, a cached commit, flows, runs and jobs, one or two of each."""
    root = _person("root", is_superuser=True)
    project = projects.create_project(actor=root, name="team-a")
    Membership.objects.filter(project=project).delete()
    for role in Role:
        _person(str(role), project=project, role=role)
    _person("stranger")
    _person("newcomer")
    bygone = projects.create_project(actor=root, name="bygone")
    for member_role in Role:
        projects.set_role(actor=root, project=bygone, username=str(member_role), role=member_role)
    deletions.delete_project(actor=root, project=bygone)
    askers = {"nobody": Asker(None)} | {name: _asker(name) for name in ROLES[1:]}
    member = askers["member"].actor
    assert member is not None
    secrets.set_secret(actor=root, project=project, name="API_KEY", value="hidden")
    values = {"project": project.name, "deleted_project": bygone.name, "username": "viewer", "secret": "API_KEY"}
    return World(askers, values | _datasets(member, project, folder) | _flows(member, project, folder))


def _person(name: str, *, project: Project | None = None, role: Role | None = None, **fields: bool) -> Actor:
    user = User.objects.create_user(name, password=None, **fields)
    if project is not None:
        Membership.objects.create(project=project, user=user, role=role)
    return actor_of(user)


def _asker(name: str) -> Asker:
    user = User.objects.get(username=name)
    actor = actor_of(user)
    token, secret = tokens.create_token(actor=actor, name="matrix", expires_at=None)
    browser = Client()
    browser.force_login(user)
    session = browser.cookies[settings.SESSION_COOKIE_NAME].value
    return Asker(actor, token.pk, {"Authorization": f"Bearer {secret}"}, session)


def _datasets(member: Actor, project: Project, folder: Path) -> dict[str, str]:
    dataset_factory.make_store(folder / "store")
    dataset = dataset_factory.make_dataset(member, project, "xrays")
    first = dataset_factory.commit_files(member, dataset, {"a.txt": b"one"})
    second = dataset_factory.commit_files(member, dataset, {"a.txt": b"two"})
    branches.create_branch(actor=member, dataset=dataset, name="side", at=first.pk)
    branches.create_tag(actor=member, dataset=dataset, name="v1", commit=first)
    queries.create_query(actor=member, dataset=dataset, name="texts", conditions=Conditions(types=("txt",)))
    tree = dataset_factory.PackedTree({"a.txt": b"three"})
    upload = dataset_factory.upload_tree(member, dataset, tree)
    site = cache_sites.create_site(
        actor=Actor.system("tests"), name="local", root=folder / "cache", capacity_bytes=10_000_000
    )
    SiteArray.objects.create(site=site, url="https://filer", svm="s", credentials=encrypt("{}"), read_at=clock.now())
    with TestCase.captureOnCommitCallbacks(execute=True):
        cached = caches.request_cache(actor=member, commit=second, site=site)
    tasks.run("datasets.hydrate", {"cached_commit_id": cached.pk})
    assert UploadSession.objects.count() == 3
    deleted = dataset_factory.make_dataset(member, project, "deleted")
    datasets.delete_dataset(actor=Actor.system("tests"), dataset=deleted)
    parts = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="browser").upload
    upload_parts.receive_part(actor=member, upload=parts, number=0, read=io.BytesIO(part()).read)
    shelf, _ = (_source(name, folder, project) for name in ("shelf", "spare"))
    ready, running = (
        InPlaceImport.objects.create(dataset=dataset, source=shelf, branch="main", state=state)
        for state in (ImportState.REFERENCED, ImportState.RUNNING)
    )
    return {
        "import_id": ready.pk,
        "running_import": running.pk,
        "spare_source": "spare",
        "parts": parts.pk,
        "dataset": dataset.name,
        "deleted": deleted.pk,
        "first": first.pk,
        "second": second.pk,
        "root": tree.root_id,
        "second_root": second.root,
        "pack": next(iter(tree.packs)),
        "pack_bytes": str(len(next(iter(tree.packs.values())))),
        "upload": upload.pk,
        "cached": cached.pk,
        "site": site.name,
        "folder": str(folder),
    }


def _source(name: str, folder: Path, project: Project) -> FileSource:
    place = folder / name
    place.mkdir()
    (place / "scan.raw").write_bytes(b"raw")
    return sources.set_source(actor=Actor.system("tests"), name=name, location=str(place), projects=[project])


def _flows(member: Actor, project: Project, folder: Path) -> dict[str, str]:
    machines = Machines(folder / "machines")
    ended = machines.start(member, project, FLOW)
    machines.turn()
    machines.turn()
    job_name = newest_attempt(ended, "train").job_name
    (machines.driver_of(job_name).open_output(job_name).host_folder / "report.txt").write_text("fine")
    machines.finish(ended, "train", prints="cnvrg_linechart_loss value: 1\n")
    machines.turn()
    assert Run.objects.get(pk=ended.pk).state == "succeeded"
    output = outputs.get_output(actor=member, job=Job.objects.get(name=job_name))
    failed = machines.start(member, project, FLOW)
    machines.turn()
    machines.turn()
    machines.finish(failed, "train", exit_code=1)
    machines.turn()
    assert Run.objects.get(pk=failed.pk).state == "failed"
    running = machines.start(member, project, FLOW)
    machines.turn()
    template = machines.resources["lab"].templates.get(name="small")
    (job,) = submit(project, template, "by-hand")
    machines.add_resource("spare", folder / "machines" / "spare")
    Resource.objects.create(name="away", kind="scripted", state=ResourceState.UNREACHABLE, error="No route to host.")
    assert Job.objects.filter(pk=job.pk).exists()
    drafts.keep_draft(actor=member, project=project, key="digits", writing=Writing(FLOW, base_version=1), revision=0)
    flows.save_version(actor=member, project=project, text=FLOW.replace("digits", "idle"))
    code = bundles.save_bundle(actor=member, project=project, data=bundle("predict.py"))
    return {
        "code_upload": bundles.start_upload(actor=member, project=project, client_id="nearline").upload.pk,
        "code_root": code.root,
        "flow": "digits",
        "idle_flow": "idle",
        "run": running.pk,
        "failed": failed.pk,
        "ended": ended.pk,
        "ended_job": job_name,
        "tree_id": output.tree,
        "output_root": output.root,
        "experiment": Experiment.objects.get(run_id=ended.pk).pk,
        "standalone": recording.create_experiment(
            actor=member, project=project, title="elsewhere", values=recording.Values()
        ).pk,
        "finished": recording.finish_experiment(
            actor=member,
            experiment=recording.create_experiment(
                actor=member, project=project, title="over", values=recording.Values()
            ),
            state="succeeded",
        ).pk,
        "job": job.name,
        "port": PortHost(job.pk, 0, 8888).label,
        "node_id": Node.objects.get(resource_name="spare").pk,
        "queue_id": Queue.objects.get(pool=DEFAULT_POOL_ID, project=project).pk,
        "department": Queue.objects.create(pool_id=DEFAULT_POOL_ID, name="research").name,
        "pool": _make_pool_of_label().name,
        "resource": "spare",
        "away": "away",
        "lab": "lab",
        "shape": "small",
        "template": "lab.small",
        "view": saved_views.save_view(actor=member, project=project, name="kept", query="q=tags.best").pk,
    }


def _make_pool_of_label() -> Pool:
    """Return a pool of the nodes of a resource with a label, of which there is none."""
    pool = Pool.objects.create(name="empty")
    pool_members.move(pool, [Node.objects.get(resource_name="spare").resource_id], label="gpu=rare")
    return pool


def as_json(body: object) -> bytes:
    """Return the bytes that a program sends; text and bytes go as they are."""
    return body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
