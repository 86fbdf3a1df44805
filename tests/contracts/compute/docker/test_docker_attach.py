"""A Docker daemon is attached: what is asked, what is checked, what is kept."""

import pytest

from compute.adapters import drivers
from compute.engine.job_spec import SourceKind
from compute.errors import CredentialsRefused, InvalidResource, ResourceExists, ResourceUnreachable
from compute.models import Resource
from compute.selectors import resources as selectors
from compute.services import resources
from scheduler.models import Node
from tests.factories.browsers import browser_of

pytestmark = pytest.mark.django_db


def attach(actor, fields, name="box"):
    resource = resources.attach_by_fields(actor=actor, name=name, kind="docker", fields=fields)
    drivers.driver_of(resource).close()
    return resource


def https_fields(daemon, who="client"):
    names = {"docker_ca": "ca", "docker_certificate": who, "docker_key": f"{who}-key"}
    return {"docker_url": daemon.https_url} | {key: daemon.pem(name) for key, name in names.items()}


def test_a_daemon_of_this_machine_is_attached_once_and_mounts_folders(site_admin, daemon):
    resource = attach(site_admin, {"docker_url": daemon.url})

    assert Node.objects.get(resource_id=resource.pk).cpu_millicores >= 1000
    assert resource.sites == ["local"]
    assert drivers.driver_of(resource).mountable == {SourceKind.HOST_FOLDER, SourceKind.TREE}
    with pytest.raises(ResourceExists, match="attached already, as 'box'"):
        attach(site_admin, {"docker_url": daemon.url}, name="again")


def test_a_daemon_on_a_network_is_attached_by_certificates_and_mounts_no_folders(site_admin, daemon):
    gpus = {"docker_gpus": "2", "docker_gpu_model": "H100", "docker_gpu_memory": "80 GiB"}

    resource = attach(site_admin, https_fields(daemon) | gpus)

    driver = drivers.driver_of(resource)
    (node,) = driver.probe()
    driver.close()
    assert [(gpu.index, gpu.model, gpu.memory_bytes) for gpu in node.gpus] == [
        (0, "H100", 80 << 30),
        (1, "H100", 80 << 30),
    ]
    assert driver.mountable == {SourceKind.TREE}
    assert selectors.list_readable_sites(resource) == []
    assert "docker_key" not in resource.config
    assert b"PRIVATE KEY" not in bytes(resource.credentials)
    assert drivers.decrypt(bytes(resource.credentials))["docker_key"] == daemon.pem("client-key").strip()


def test_a_stranger_is_not_let_in_and_nothing_is_kept(site_admin, daemon):
    with pytest.raises(CredentialsRefused, match="does not let in the client's certificate"):
        attach(site_admin, https_fields(daemon, "stranger"))

    assert not Resource.objects.exists()


def test_a_daemon_whose_certificate_another_authority_has_signed_is_not_trusted(site_admin, daemon):
    with pytest.raises(CredentialsRefused, match="shows a certificate that is not trusted") as raised:
        attach(site_admin, {**https_fields(daemon, "client"), "docker_ca": ""})

    assert raised.value.details == {"field": "docker_ca"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"docker_url": "http://gpu-7.lab:2375"}, "root on its host. Give an https address"),
        ({"docker_url": "https://gpu-7.lab:2376"}, "Give cert.pem and key.pem"),
        ({"docker_url": "ssh://gpu-7.lab"}, "is written like unix:///var/run/docker.sock or https"),
        ({"docker_url": "unix://run/docker.sock"}, "is written like"),
        ({"docker_url": "https://h:1", "docker_certificate": "x", "docker_key": "y"}, "do not belong together"),
        ({"docker_url": "https://h:1", "docker_ca": "no", "docker_certificate": "x", "docker_key": "y"}, "authority"),
        ({"docker_url": "https://[::1"}, "is written like"),
        ({"docker_url": "https://h:99999", "docker_certificate": "x", "docker_key": "y"}, "is written like"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_what_to_give(site_admin, fields, words):
    with pytest.raises(InvalidResource, match=words):
        attach(site_admin, fields)

    assert not Resource.objects.exists()


def test_a_socket_on_which_nobody_answers_is_told(site_admin, tmp_path):
    with pytest.raises(ResourceUnreachable, match=r"nobody\.sock does not answer"):
        attach(site_admin, {"docker_url": f"unix://{tmp_path}/nobody.sock"})


def test_the_page_attaches_a_daemon_and_shows_no_key(site_admin, daemon):
    browser = browser_of(site_admin)

    answer = browser.post("/compute/attach/", {"name": "box", "kind": "docker", **https_fields(daemon)}, follow=True)

    drivers.driver_of(Resource.objects.get(name="box")).close()
    assert answer.status_code == 200
    assert "PRIVATE KEY" not in answer.content.decode()
