"""The guide leads an admin from an empty cluster to a cached dataset: its very commands are run."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.docs.blocks import Block, read_blocks
from tests.docs.scripts import run_page
from tests.journeys.product import ROOT
from tests.kubernetes.attached_product import reachable_product
from tests.kubernetes.images import USER_IMAGE
from tests.kubernetes.programs import TOOLS

OURS = f"needs a cluster; {Path(__file__).relative_to(ROOT)} runs it"


def blocks_for(agent_image: str) -> list[Block]:
    """Return the guide's commands with images that are on the node."""
    names = {"REGISTRY/nearline:VERSION": agent_image, "python:3.12": USER_IMAGE}
    blocks = [block for block in read_blocks(ROOT / "docs/guides/admin.md") if block.value == OURS]
    for name, image in names.items():
        blocks = [replace(block, mark="", text=block.text.replace(name, image)) for block in blocks]
    return blocks


@pytest.fixture
def product(cluster, tmp_path):
    """The product with a dataset, where pods reach it."""
    with reachable_product(cluster, tmp_path / "home") as product:
        data = tmp_path / "digits"
        data.mkdir()
        (data / "numbers.csv").write_text("1\n2\n3\n")
        product.api("POST", "/projects", {"name": "demo"})
        product.cli("data", "init", "--project", "demo", "--title", "digits", cwd=data)
        product.cli("data", "sync", cwd=data)
        yield product
    cluster.kubectl("delete", "namespace", "nearline", "--ignore-not-found", "--wait=false")


def test_the_commands_of_the_guide_lead_to_a_cached_dataset(cluster, agents, trident, product, tmp_path):
    desk = tmp_path / "desk"
    desk.mkdir()
    (desk / "deploy").symlink_to(ROOT / "deploy")
    environment = product.environment | {
        "HOME": str(desk),
        "KUBECONFIG": str(cluster.kubeconfig),
        "NEARLINE_URL": product.url,
        "NEARLINE_TOKEN": product.token,
        "PATH": f"{TOOLS}{os.pathsep}{product.environment['PATH']}",
    }

    faults = run_page(blocks_for(agents), desk, environment)

    assert not faults, "\n\n".join(faults)
    (copy,) = product.api("GET", "/cache/commits")["items"]
    assert (copy["state"], copy["site"]) == ("ready", "lab-k8s")
    (resource,) = [item for item in product.api("GET", "/compute/resources")["items"] if item["name"] == "lab-k8s"]
    steps = [step["name"] for step in resource["storage_probe"]["steps"]]
    assert steps == ["bound", "written", "cloned", "read", "deleted"]
    claims = cluster.api.list("/api/v1/namespaces/nearline/persistentvolumeclaims")
    assert [claim["status"]["phase"] for claim in claims] == ["Bound"]
