"""Resources of kind `docker`: a host whose Docker daemon answers. Jobs are containers there."""

import ipaddress
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from django import forms

from accounts.permissions import Actor
from compute.adapters.docker.containers import ContainerSettings
from compute.adapters.docker.driver import DockerDriver
from compute.adapters.docker.engine import Address, Engine, Refusal, open_context
from compute.adapters.kinds import MOST_GPUS, Config, ConfigForm, Credentials, ResourceKind, SecretField
from compute.adapters.local.elsewhere import ElsewhereDriver
from compute.adapters.local.machine import list_gpus
from compute.engine.job_spec import HostFolder, SourceKind, Tree
from compute.engine.ports import ComputeDriver, GpuFacts
from compute.errors import InvalidResource
from compute.models import Resource
from core import bounds, connections, hosts
from core.form_fields import SizeField
from datasets.selectors import trees
from datasets.services import tree_archives
from nearline.content import archives

_SOCKET = "unix:///var/run/docker.sock"
_LEAST_API = (1, 41)
_MOST_PEM = 50_000
_SYSTEM = Actor.system("containers of jobs")


class DockerForm(ConfigForm):
    """Which daemon, by which certificates, and what all containers have."""

    docker_url = forms.CharField(
        max_length=500,
        initial=_SOCKET,
        label="Docker daemon",
        help_text="A socket of this machine, unix:///var/run/docker.sock, or another host: https://gpu-7.lab:2376.",
    )
    docker_ca = forms.CharField(
        max_length=_MOST_PEM,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "class": "form-control", "spellcheck": "false"}),
        label="Authority",
        help_text="For https: the certificate that signed the host's, as PEM (ca.pem). Empty: the usual ones.",
    )
    docker_certificate = SecretField(
        rows=3, max_length=_MOST_PEM, required=False, label="Client certificate", help_text="As PEM (cert.pem)."
    )
    docker_key = SecretField(
        rows=3,
        max_length=_MOST_PEM,
        required=False,
        label="Client key",
        help_text="As PEM (key.pem). Both are kept encrypted and never shown again.",
    )
    docker_image = forms.CharField(
        max_length=500, required=False, label="Image of jobs", help_text="For jobs that name none."
    )
    docker_network = forms.CharField(
        max_length=100, required=False, label="Network of jobs", help_text="Empty: Docker's own, bridge."
    )
    docker_gpus = forms.IntegerField(
        min_value=0,
        max_value=MOST_GPUS,
        required=False,
        label="GPUs of the host",
        help_text="For another host: Docker does not tell them. On this machine they are found.",
    )
    docker_gpu_model = forms.CharField(max_length=100, required=False, label="GPU model")
    docker_gpu_memory = SizeField(most=bounds.MAX_QUANTITY, required=False, label="Memory of each GPU")

    def read_config(self, name: str) -> Config:  # noqa: ARG002
        """Return what is given, without what is secret."""
        return {key: value for key, value in self.cleaned_data.items() if key not in self.secrets() and value}


def check(config: Config, credentials: Credentials) -> None:
    """Check the address and the certificates, then ask the daemon. Raises InvalidResource and ResourceUnreachable."""
    address = _read_address(config, credentials)
    if not address.socket:
        open_context(address)
    engine = Engine(address)
    try:
        version = engine.get("/version") or {}
    except Refusal as error:
        raise InvalidResource(f"{address.url} refuses: {error.message}", field="docker_url") from error
    finally:
        engine.close()
    if version.get("Os") != "linux" or "ApiVersion" not in version:
        raise InvalidResource(f"At {address.url} answers no Docker daemon for Linux.", field="docker_url")
    if tuple(map(int, str(version["ApiVersion"]).split("."))) < _LEAST_API:
        least = ".".join(map(str, _LEAST_API))
        raise InvalidResource(
            f"Docker {version.get('Version')} is too old: its API is {version['ApiVersion']}, and {least} is needed.",
            field="docker_url",
        )


def open_driver(resource: Resource, home: Path, credentials: Credentials) -> ComputeDriver:
    """Return the driver."""
    if not hosts.is_here(resource.host):
        return ElsewhereDriver(resource)
    config = resource.config
    address = _read_address(config, credentials)
    return DockerDriver(
        Engine(address),
        ContainerSettings(
            resource=resource.pk,
            default_image=str(config.get("docker_image", "")),
            network=str(config.get("docker_network", "")),
        ),
        folder=home / "docker" / resource.pk,
        open_source=_open_source,
        list_gpus=list_gpus if address.socket else lambda: _declared_gpus(config),
        is_here=bool(address.socket),
    )


def is_of_this_host(config: Config) -> bool:
    """Whether the daemon of a resource is reached by a socket of the platform's host."""
    return str(config.get("docker_url", "")).startswith("unix://")


def _read_address(config: Config, credentials: Credentials) -> Address:
    """Return where a daemon answers. Raises InvalidResource."""
    url, key = str(config.get("docker_url", "")), credentials.get("docker_key", "")
    certificate = credentials.get("docker_certificate", "")
    address = Address(url.rstrip("/"), str(config.get("docker_ca", "")), certificate, key)
    scheme, host, path = _split(url)
    if scheme == "unix" and path.startswith("/") and not host:
        return address
    if scheme not in {"http", "https"} or not host or path not in {"", "/"}:
        message = f"A Docker daemon is written like {_SOCKET} or https://gpu-7.lab:2376."
        raise InvalidResource(message, field="docker_url")
    if scheme == "http" and not _is_loopback(host):
        raise InvalidResource(
            "Whoever reaches a daemon without encryption is root on its host. Give an https address with certificates.",
            field="docker_url",
        )
    if scheme == "https" and not (certificate and key):
        raise InvalidResource(
            "A daemon on a network lets in only clients with a certificate. Give cert.pem and key.pem.",
            field="docker_certificate",
        )
    return address


def _split(url: str) -> tuple[str, str, str]:
    """Return scheme, host and path of a URL; all empty where it is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # read only now
    except ValueError:
        return "", "", ""
    return parts.scheme, parts.hostname or "", parts.path


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _declared_gpus(config: Config) -> Sequence[GpuFacts]:
    model, memory_bytes = str(config.get("docker_gpu_model", "")), int(str(config.get("docker_gpu_memory") or 0))
    count = int(str(config.get("docker_gpus") or 0))
    return [GpuFacts(index, f"{index}", model, memory_bytes) for index in range(count)]


def _open_source(source: Tree | HostFolder) -> Iterator[bytes]:
    """Yield the archive of what is copied into a container, on a thread of its own."""
    if isinstance(source, HostFolder):
        yield from archives.pack(Path(source.path))
        return
    try:
        tree = trees.get_mounted(_SYSTEM, source.dataset_id, source.root)
        yield from tree_archives.read_archive(actor=_SYSTEM, tree=tree)
    finally:
        connections.close_all()


KIND = ResourceKind(
    name="docker",
    label="docker: containers of a Docker daemon",
    hint="A daemon of this machine mounts cached commits. On another host nothing is cached: each job gets a copy of "
    "its datasets from the store. Where they are read again and again, attach that host by SSH with a cache folder.",
    form=DockerForm,
    check=check,
    open=open_driver,
    mountable=frozenset({SourceKind.HOST_FOLDER, SourceKind.TREE}),
    has_host=is_of_this_host,
    may_be_elsewhere=True,
    is_remote=True,
    shares_gpus=lambda _: False,
    changeable=lambda _: ("docker_image", "docker_network"),
    keep_ended=timedelta(days=1),
)
