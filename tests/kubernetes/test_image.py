"""The product's image: small, without a compiler, and at work where nothing but its own folders can be written."""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from dockerfile_parse import DockerfileParser

from deploy.images import build
from deploy.images.archive import write_layer
from tests.kubernetes import manifests

LIMIT_BYTES = 300_000_000
SENT = """
import io, zipfile
from compute.adapters.ssh.program import build_packages
names = zipfile.ZipFile(io.BytesIO(build_packages().data)).namelist()
print(*sorted({name.split("/")[1] for name in names if name.endswith(".py")}))
"""
INSTRUCTIONS = {"FROM", "RUN", "COPY", "ENV", "LABEL", "USER", "WORKDIR", "CMD"}


@pytest.fixture(scope="module")
def dockerfile() -> DockerfileParser:
    text = (build.ROOT / "deploy/images/Dockerfile").read_bytes()
    return DockerfileParser(fileobj=io.BytesIO(text))


def members_of(archive: Path) -> Iterator[tarfile.TarInfo]:
    """All that is in the layers of an image."""
    with tarfile.open(archive) as image:
        (manifest,) = json.load(image.extractfile("manifest.json"))
        for layer in manifest["Layers"]:
            with tarfile.open(fileobj=image.extractfile(layer), mode="r|gz") as content:
                yield from content


def run_in_pod(cluster, namespace: str, image: str, *command: str) -> str:
    """Run a command in a restricted pod whose only writable folder is the product's home; return its output."""
    home = {"name": "home", "mountPath": build.HOME}
    container = manifests.container(*command, image=image, volumeMounts=[home])
    pod = manifests.pod(container, volumes=[{"name": "home", "emptyDir": {}}], securityContext={"fsGroup": 10001})
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.api.create(pods, pod)
    ended = cluster.api.wait(f"{pods}/main", manifests.has_ended)
    log = cluster.kubectl("logs", "main", f"--namespace={namespace}")
    assert ended["status"]["phase"] == "Succeeded", log
    return log


def test_a_layer_of_the_same_files_has_the_same_bytes(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "name").write_text("digits")

    first = write_layer(tmp_path / "first", folder, modified_at=7)
    (folder / "name").touch()
    second = write_layer(tmp_path / "second", folder, modified_at=7)

    assert first.content_digest == second.content_digest
    assert first.path.read_bytes() == second.path.read_bytes()


def test_the_image_is_small_when_it_is_unpacked(product_archive):
    assert sum(member.size for member in members_of(product_archive)) < LIMIT_BYTES


def test_the_image_holds_no_compiler_no_installer_and_no_sources_of_pages(product_archive):
    names = {member.name for member in members_of(product_archive)}

    assert "srv/nearline/manage.py" in names
    programs = {Path(name).name for name in names if Path(name).parent.name in ("bin", "sbin")}
    assert programs.isdisjoint({"gcc", "cc", "make", "pip", "pip3", "git", "apt", "perl"})
    assert [name for name in names if name.startswith((f"srv/nearline/{build.NOT_SERVED}", "srv/nearline/tests"))] == []
    assert [name for name in names if name.endswith("direct_url.json")] == []
    assert {"usr/share/doc/python3.11/copyright", "usr/share/common-licenses/GPL-3"} <= names


def test_the_product_checks_itself_and_has_what_it_sends_to_hosts_in_a_restricted_pod(cluster, product_image):
    namespace = cluster.create_namespace("test-image-product", enforce="restricted")

    log = run_in_pod(cluster, namespace, product_image, "sh", "-c", f"python3 manage.py check && python3 -c '{SENT}'")

    assert log.splitlines() == [
        "System check identified no issues (0 silenced).",
        "anyio blake3 certifi h11 httpcore httpx idna nearline typing_extensions.py",
    ]


def test_the_client_answers_in_a_restricted_pod(cluster, product_image):
    namespace = cluster.create_namespace("test-image-client", enforce="restricted")

    log = run_in_pod(cluster, namespace, product_image, "sh", "-c", "nearline -h && python3 -m nearline.hydrate -h")

    assert "versioned datasets next to the GPUs" in log
    assert "usage: python -m nearline.hydrate" in log


def test_the_dockerfile_sets_what_the_built_image_sets(dockerfile):
    instructions = {step["instruction"]: step["value"] for step in dockerfile.structure}

    assert set(instructions) - {"COMMENT"} == INSTRUCTIONS
    assert dockerfile.envs == build.ENVIRONMENT
    assert instructions["USER"] == f"{build.USER_ID}:{build.USER_ID}"
    assert instructions["WORKDIR"] == f"/{build.CODE}"
    assert json.loads(instructions["CMD"]) == list(build.COMMAND)


def test_the_dockerfile_copies_the_parts_of_the_built_image(dockerfile):
    copies = [step["value"].split()[:-1] for step in dockerfile.structure if step["instruction"] == "COPY"]
    sources = {source for copy in copies if not copy[0].startswith("--from=") for source in copy}

    scripts = {"deploy/images/slim", "deploy/images/compile", "deploy/images/nearline"}
    assert sources - {"client", "requirements/image.txt"} - scripts == set(build.PARTS)
    assert all((build.ROOT / source).exists() for source in sources)
