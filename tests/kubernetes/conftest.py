"""Clusters for tests: a control plane with simulated nodes, quick; and one whose node runs real pods.

Both last for the session and are shared: a test makes a namespace of its own. A test that breaks a cluster starts one
with `running_cluster`.
"""

import contextlib
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.images import build
from tests.folders import open_folder
from tests.kubernetes import images
from tests.kubernetes.agent_image import AGENT_IMAGE, write_agent_image
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kwok import start_kwok
from tests.kubernetes.processes import Cleaner
from tests.kubernetes.programs import missing_for_control_plane, missing_for_node
from tests.kubernetes.provisioner import Provisioner


@contextlib.contextmanager
def cluster_folder() -> Iterator[tuple[Path, Cleaner]]:
    """Give a folder for a cluster; nothing in it or registered is left, however this process ends."""
    cleaner = Cleaner()
    folder = Path(tempfile.mkdtemp(prefix="nearline-kube-"))
    cleaner.register("folder", folder)
    try:
        yield folder, cleaner
    finally:
        cleaner.clean()


@contextlib.contextmanager
def running_control_plane(**settings: str) -> Iterator[ControlPlane]:
    """Run a control plane with kwok."""
    with cluster_folder() as (folder, _):
        control_plane = ControlPlane(folder, **settings)
        try:
            control_plane.start()
            start_kwok(control_plane)
            yield control_plane
        finally:
            control_plane.stop()


@contextlib.contextmanager
def running_cluster(**settings: int) -> Iterator[Cluster]:
    """Run a control plane with kwok and a real node."""
    with cluster_folder() as (folder, cleaner):
        cluster = Cluster(folder, cleaner, **settings)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A Kubernetes API with scheduler and controllers. It has no node until a test adds simulated ones."""
    if reason := missing_for_control_plane():
        pytest.skip(reason)
    with running_control_plane() as started:
        yield started


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A Kubernetes whose node runs pods from USER_IMAGE."""
    if reason := missing_for_node():
        pytest.skip(reason)
    with running_cluster() as started:
        yield started


@pytest.fixture(scope="session")
def product_archive(tmp_path_factory) -> Path:
    """The archive of IMAGE, the product's own image, built from this checkout."""
    if reason := build.missing():
        pytest.skip(f"needs what builds the image: {reason}")
    return images.write_product_image(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="session")
def product_image(cluster, product_archive) -> str:
    """IMAGE, which is on the node of `cluster`."""
    cluster.node.import_image(product_archive)
    return images.IMAGE


@pytest.fixture(scope="session")
def trident(cluster) -> Iterator[Provisioner]:
    """The stand-in for Trident on `cluster`: it makes volumes that pods of the real node mount."""
    with open_folder() as folder:  # pods run as another user
        started = Provisioner(cluster.api, folder / "volumes", retry_s=0.2)
        started.start()
        yield started
        started.stop()


@pytest.fixture(scope="session")
def agents(cluster, tmp_path_factory) -> str:
    """AGENT_IMAGE, which is on the node of `cluster`."""
    cluster.node.import_image(write_agent_image(tmp_path_factory.mktemp("agent")))
    return AGENT_IMAGE


@pytest.fixture
def namespace(request) -> str:
    """A namespace of the test's own in the cluster that it uses."""
    name = "cluster" if "cluster" in request.fixturenames else "control_plane"
    started = request.getfixturevalue(name)
    return started.create_namespace(f"test-{secrets.token_hex(4)}")
