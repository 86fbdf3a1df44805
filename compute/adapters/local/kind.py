"""Resources of kind `local`: the machine that the platform runs on. Jobs are processes of the platform's user."""

import os
from pathlib import Path

from django.conf import settings

from compute.adapters.kinds import Config, Credentials, ResourceKind
from compute.adapters.local.driver import LocalDriver
from compute.adapters.local.elsewhere import ElsewhereDriver
from compute.adapters.local.shim_spawner import find_refusal
from compute.adapters.local.tree_folders import TreeFolders
from compute.adapters.local.views import Views
from compute.engine.job_spec import SourceKind, Tree
from compute.engine.ports import ComputeDriver, Launch
from compute.errors import InvalidResource
from compute.models import Resource
from core import hosts
from datasets.selectors import tree_sources


def check(config: Config, credentials: Credentials) -> None:
    """Require nothing: this machine is asked for what it has. Raises InvalidResource for any setting."""
    if config or credentials:
        raise InvalidResource("This machine has no settings; only a simulated resource declares its nodes.")


def open_driver(resource: Resource, home: Path, _credentials: Credentials) -> ComputeDriver:
    """Return the driver. It confines jobs if that is asked for and possible."""
    if not hosts.is_here(resource.host):
        return ElsewhereDriver(resource)
    site = settings.NEARLINE
    refusal = find_refusal() if site.confine_jobs else "The setting NEARLINE_CONFINE_JOBS is 0."
    trees = open_tree_folders(home)
    volumes = list_volumes({})
    if refusal:
        return LocalDriver(home / "jobs", unconfined_reason=refusal, trees=trees, volumes=volumes)
    readable, writable = (_paths(text) for text in (site.job_readable_paths, site.job_writable_paths))
    views = Views(hidden=[home], readable=readable, writable=writable)
    return LocalDriver(home / "jobs", views, trees=trees, volumes=volumes)


def list_volumes(_config: Config) -> list[str]:
    """Return the folders that jobs may mount, as the setting names them."""
    return [part.strip() for part in settings.NEARLINE.job_volumes.split(",") if part.strip()]


def open_tree_folders(home: Path) -> TreeFolders:
    """Return the trees of the store that are folders of this host."""
    return TreeFolders(home / "trees", _open_tree)


def _open_tree(tree: Tree, _launch: Launch) -> tree_sources.TreeSource:
    return tree_sources.open_tree(tree.dataset_id, tree.root)


def _paths(text: str) -> list[Path]:
    return [Path(part).expanduser() for part in text.split(os.pathsep) if part]


KIND = ResourceKind(
    name="local",
    label="local: this machine",
    hint="This machine finds its own cores, memory and GPUs.",
    check=check,
    mountable=frozenset({SourceKind.HOST_FOLDER, SourceKind.TREE}),
    open=open_driver,
    has_host=lambda _: True,
    ignores_images=True,
    keeps_checkpoints=True,
    opens_ports=True,
    shares_trees=True,
    volumes_of=list_volumes,
    volumes_help="NEARLINE_JOB_VOLUMES",
)
