"""A host is attached by SSH: what is asked, what is checked, what is kept, and what no page shows."""

import subprocess

import pytest

from compute.adapters import drivers
from compute.errors import InvalidResource, ResourceUnreachable, UnknownHostKey
from compute.models import Resource
from compute.services import resources
from core.errors import InvalidInput
from datasets.selectors import caches
from scheduler.models import Node
from tests.contracts.compute.ssh.sshd import USER
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.kubernetes.stand_in_platform import StandInPlatform
from tests.ports import reserve_port

pytestmark = pytest.mark.django_db


@pytest.fixture
def fields(sshd, tmp_path):
    """What an admin gives."""
    with StandInPlatform("127.0.0.1", tmp_path / "outputs").running() as platform:
        yield {
            "address": f"{USER}@127.0.0.1:{sshd.port}",
            "private_key": sshd.private_key,
            "known_host": sshd.known_host,
            "host_folder": str(sshd.folder / "nearline"),
            "host_platform_url": platform.url,
        }


@pytest.fixture
def browser(site_admin):
    return browser_of(site_admin)


def attach(actor, fields):
    resource = resources.attach_by_fields(actor=actor, name="gpu-7", kind="ssh", fields=fields)
    drivers.driver_of(resource).close()
    return resource


def test_a_host_that_answers_is_attached_with_its_cores_and_its_key_is_kept_encrypted(site_admin, sshd, fields):
    resource = attach(site_admin, fields)

    node = Node.objects.get(resource_id=resource.pk)
    assert node.cpu_millicores >= 1000
    assert resource.config == {name: value for name, value in fields.items() if name != "private_key"}
    assert drivers.decrypt(bytes(resource.credentials)) == {"private_key": sshd.private_key.strip()}
    assert b"OPENSSH" not in bytes(resource.credentials)
    assert [path.name for path in (sshd.folder / "nearline").iterdir()] == [resource.pk]


def test_a_host_whose_key_nobody_has_confirmed_is_attached_only_with_the_line_that_the_answer_tells(
    site_admin, sshd, fields
):
    with pytest.raises(UnknownHostKey) as raised:
        attach(site_admin, fields | {"known_host": ""})
    assert not Resource.objects.exists()
    assert list(sshd.home.iterdir()) == []

    attach(site_admin, fields | {"known_host": raised.value.details["known_host"]})

    assert Resource.objects.get().name == "gpu-7"


def test_the_page_shows_the_fingerprint_at_its_field_and_never_the_private_key(browser, sshd, fields):
    answer = browser.post("/compute/attach/", fields | {"name": "gpu-7", "kind": "ssh", "known_host": ""})

    (message,) = answer.context["form"].errors["known_host"]
    printed = subprocess.run(
        ["ssh-keygen", "-lf", sshd.folder / "host.pub"], capture_output=True, text=True, check=True
    )
    assert printed.stdout.split()[1] in message
    assert sshd.private_key.splitlines()[1] not in answer.content.decode()
    assert not Resource.objects.exists()


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"address": "gpu-7"}, "address", "The host is written as USER@HOST or USER@HOST:PORT."),
        ({"address": "a@b:99999"}, "address", "The host is written as USER@HOST or USER@HOST:PORT."),
        ({"address": "a@gpu..lab"}, "address", "The host is written as USER@HOST or USER@HOST:PORT."),
        ({"address": f"a@{'b' * 64}.lab"}, "address", "The host is written as USER@HOST or USER@HOST:PORT."),
        ({"private_key": "geheim"}, "private_key", "The private key cannot be read: Invalid private key. Give a file"),
        (
            {"private_key": "ssh-ed25519 AAAA me"},
            "private_key",
            "The private key cannot be read: this is a public key.",
        ),
        ({"known_host": "gpu-8 ssh-ed25519 AAAA"}, "known_host", "No line of the known host is about [127.0.0.1]:"),
        ({"known_host": "garbage"}, "known_host", "The known host cannot be read"),
        ({"host_folder": "files"}, "host_folder", "The folder on the host begins with / or ~/."),
    ],
)
def test_what_cannot_be_right_is_refused_at_its_field(site_admin, fields, change, field, words):
    with pytest.raises(InvalidResource) as raised:
        attach(site_admin, fields | change)

    assert raised.value.message.startswith(words)
    assert raised.value.details == {"field": field}
    assert not Resource.objects.exists()


def test_a_known_host_that_is_about_another_host_is_refused(site_admin, sshd, fields):
    with pytest.raises(InvalidResource, match="No line of the known host is about"):
        attach(site_admin, fields | {"known_host": sshd.known_host.replace("127.0.0.1", "10.0.0.1")})


def test_a_key_with_a_passphrase_is_refused_in_words_that_help(site_admin, sshd, fields):
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "geheim", "-f", sshd.folder / "other"], check=True)

    with pytest.raises(InvalidResource, match=r"cannot be read: Passphrase must be .*ssh-keygen -p"):
        attach(site_admin, fields | {"private_key": (sshd.folder / "other").read_text()})


def test_a_host_that_lets_nobody_connect_is_told_in_the_words_of_the_system(site_admin, fields):
    port = reserve_port()

    with pytest.raises(ResourceUnreachable) as raised:
        attach(site_admin, fields | {"address": f"me@127.0.0.1:{port}", "known_host": ""})

    assert raised.value.message == f"me@127.0.0.1:{port} does not answer: Connection refused."


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"host_python": "/no/python"}, "/no/python: not found"),
        ({"host_folder": "/proc/nearline"}, "No such file or directory: '/proc/nearline"),
    ],
)
def test_a_host_on_which_the_program_does_not_run_is_refused_in_its_words(site_admin, sshd, fields, change, words):
    body = {"name": "gpu-7", "kind": "ssh", "settings": fields | change}

    status, problem = call(site_admin, "POST", "/compute/resources", body)
    page = browser_of(site_admin).post("/compute/attach/", fields | change | {"name": "gpu-7", "kind": "ssh"})

    (message,) = page.context["form"].errors["__all__"]
    assert (status, problem["code"]) == (409, "compute.host_unfit")
    assert [words in text for text in (str(problem), message)] == [True, True]
    assert not Resource.objects.exists()


def test_a_host_that_cannot_reach_the_platform_is_refused(site_admin, sshd, fields):
    url = f"http://127.0.0.1:{reserve_port()}"

    with pytest.raises(InvalidResource, match=f"cannot reach Nearline at {url}: .*refused"):
        attach(site_admin, fields | {"host_platform_url": url})

    assert not (sshd.folder / "nearline").exists()
    assert not Resource.objects.exists()


def test_a_host_can_bring_a_folder_for_cached_commits_which_is_found_again_when_it_is_attached_anew(
    site_admin, sshd, fields
):
    fields |= {"cache_folder": str(sshd.folder / "cache")}
    first = attach(site_admin, fields)
    resources.detach_resource(actor=site_admin, resource=first)

    second = attach(site_admin, fields)

    site = caches.get_site(actor=site_admin, name="gpu-7")
    assert (site.kind, site.root, site.cluster) == ("ssh", str(sshd.folder / "cache"), second.pk)
    assert second.sites == ["gpu-7"]
    assert site.capacity_bytes > 0


def test_a_host_whose_folder_for_cached_commits_cannot_be_used_is_not_attached(site_admin, sshd, fields):
    (sshd.folder / "file").write_text("")

    with pytest.raises(InvalidInput, match=r"File exists\. Make it there for"):
        attach(site_admin, fields | {"cache_folder": str(sshd.folder / "file")})

    assert not Resource.objects.exists()
    assert list(caches.list_sites(actor=site_admin)) == []
    assert not (sshd.folder / "nearline").exists()


def test_a_key_is_replaced_by_one_that_the_host_lets_in(site_admin, sshd, fields):
    resource = attach(site_admin, fields)
    other = (sshd.folder / "other").read_text()
    with pytest.raises(ResourceUnreachable, match="refuses the key"):
        resources.replace_credentials(actor=site_admin, resource=resource, credentials={"private_key": other})
    with (sshd.folder / "authorized").open("a") as file:
        file.write((sshd.folder / "other.pub").read_text())

    resources.replace_credentials(actor=site_admin, resource=resource, credentials={"private_key": other})

    resource.refresh_from_db()
    assert drivers.decrypt(bytes(resource.credentials)) == {"private_key": other}
    assert drivers.driver_of(resource).list_jobs() == []
    drivers.driver_of(resource).close()
