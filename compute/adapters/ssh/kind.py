"""Resources of kind `ssh`: a Linux host that is entered with a key. Jobs are processes of the user there."""

import os
import re
import secrets
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from django import forms
from django.conf import settings as django_settings

from compute.adapters.job_tokens import sign_attempt
from compute.adapters.kinds import Config, ConfigForm, Credentials, OwnSite, ResourceKind, SecretField
from compute.adapters.ssh.connection import SSH_PORT, Host, HostConnection, find_host_key
from compute.adapters.ssh.driver import MOUNTABLE, SshDriver
from compute.adapters.stored_outputs import StoredTreeOutputs
from compute.engine.ports import ComputeDriver
from compute.errors import InvalidResource
from compute.models import Resource
from core import units

_ADDRESS = re.compile(
    r"(?P<user>[A-Za-z0-9._-]{1,64})"
    r"@(?P<host>[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?|\[[0-9A-Fa-f:.]{2,45}\])"
    r"(:(?P<port>[0-9]{1,5}))?"
)
_PUBLIC_KEY = re.compile(r"\s*(ssh|ecdsa|sk)-[a-z0-9@.-]+ ")
_MOST_PORT = 2**16 - 1
_FOLDER = re.compile(r"(/|~/)[^\0\n]*")
_MOST_KEY = 20_000
_LEAST_FREE_BYTES = 100 * 2**20


class SshForm(ConfigForm):
    """Which host, as whom, by which key it is known, and where its jobs keep their files."""

    address = forms.CharField(
        max_length=400, label="User and host", help_text="Like nearline@gpu-7.lab, or nearline@gpu-7.lab:2222."
    )
    private_key = SecretField(
        rows=6,
        max_length=_MOST_KEY,
        label="Private key",
        help_text="In OpenSSH's format, without a passphrase. It is kept encrypted and never shown again.",
    )
    known_host = forms.CharField(
        max_length=_MOST_KEY,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "class": "form-control", "spellcheck": "false"}),
        label="Known host",
        help_text="The host's line of a known_hosts file. Empty: the answer is its fingerprint, to be confirmed.",
    )
    host_folder = forms.CharField(
        max_length=1000,
        required=False,
        label="Folder on the host",
        help_text="For files of jobs, code and inputs. Empty: ~/.nearline.",
    )
    cache_folder = forms.CharField(
        max_length=1000,
        required=False,
        label="Folder for cached commits",
        help_text="On the host, like /data/cache: its jobs read datasets there. Empty: they are brought for each job.",
    )
    host_python = forms.CharField(
        max_length=1000, required=False, label="Python on the host", help_text="3.11 or newer. Empty: python3."
    )
    host_readable = forms.CharField(
        max_length=2000,
        required=False,
        label="Paths that jobs read",
        help_text="Such as ~/miniconda3, as jobs do not see homes; with commas between them.",
    )
    host_volumes = forms.CharField(
        max_length=2000,
        required=False,
        label="Folders for jobs",
        help_text="Of the host, which jobs of all projects may mount. Like /srv/scans:ro (only read), /scratch.",
    )
    host_platform_url = forms.URLField(
        max_length=500,
        required=False,
        assume_scheme="https",
        label="Address of Nearline for the host",
        help_text="Empty: NEARLINE_PUBLIC_URL.",
    )

    def clean_host_volumes(self) -> str:
        """Require absolute paths, written in full."""
        text: str = self.cleaned_data["host_volumes"]
        for offer in _items(text):
            folder = offer.removesuffix(":ro")
            if not folder.startswith("/") or ":" in folder or os.path.normpath(folder) != folder:
                raise forms.ValidationError(f"'{offer}' is not the full path of a folder, such as /srv/scans:ro.")
        return text

    def read_config(self, name: str) -> Config:  # noqa: ARG002
        """Return what is given, without what is secret."""
        return {key: value for key, value in self.cleaned_data.items() if key != "private_key" and value}


def check(config: Config, credentials: Credentials) -> None:
    """Check the key and the host's, then ask the host whether jobs can run there and reach this platform.

    Raises InvalidResource and ResourceUnreachable, and UnknownHostKey where its key was not confirmed.
    """
    host = _read_host(config, credentials, f"check-{secrets.token_hex(4)}")
    _check_private_key(host.private_key)
    if not host.known_host:
        raise find_host_key(host)
    _check_known_host(host)
    url = _platform_url(config)
    connection = HostConnection(host)
    try:
        facts = connection.call("check", url=url, reply_timeout_s=20.0)
    finally:
        connection.close()
    if facts["platform_fault"]:
        raise InvalidResource(
            f"{host} cannot reach Nearline at {url}: {facts['platform_fault']}. Set NEARLINE_PUBLIC_URL to an address "
            "that it can reach, or give that address here.",
            field="host_platform_url",
        )
    if facts["free_bytes"] < _LEAST_FREE_BYTES:
        free = units.format_bytes(facts["free_bytes"])
        raise InvalidResource(f"{host} has only {free} left in {host.folder}.", field="host_folder")


def site_of(resource: Resource) -> OwnSite | None:
    """Return the cache site in a folder of a host; None where none was chosen."""
    folder = resource.config.get("cache_folder")
    return OwnSite("ssh", {"resource": resource.pk}, root=folder) if folder else None


def withdraw(driver: ComputeDriver) -> None:
    """Remove the folder that a host was asked about."""
    assert isinstance(driver, SshDriver)  # noqa: S101 (this kind opens no other)
    driver.withdraw()


def open_driver(resource: Resource, _home: Path, credentials: Credentials) -> SshDriver:
    """Return the driver."""
    return SshDriver(
        HostConnection(_read_host(resource.config, credentials, resource.pk), is_attended=True),
        resource_id=resource.pk,
        platform_url=_platform_url(resource.config),
        outputs=StoredTreeOutputs(),
        sign_attempt=sign_attempt,
        volumes=list_volumes(resource.config),
    )


def list_volumes(config: Config) -> list[str]:
    """Return the folders of a host that jobs may mount."""
    return _items(config.get("host_volumes", ""))


def _items(text: object) -> list[str]:
    return [item.strip() for item in str(text).split(",") if item.strip()]


def _read_host(config: Config, credentials: Credentials, resource_id: str) -> Host:
    """Return the host that a config describes. Its folder is that of one resource. Raises InvalidResource."""
    address = _ADDRESS.fullmatch(str(config.get("address", "")))
    if address is None or int(address["port"] or SSH_PORT) > _MOST_PORT:
        raise InvalidResource("The host is written as USER@HOST or USER@HOST:PORT.", field="address")
    folder = str(config.get("host_folder") or "~/.nearline")
    if not _FOLDER.fullmatch(folder):
        raise InvalidResource("The folder on the host begins with / or ~/.", field="host_folder")
    return Host(
        user=address["user"],
        name=address["host"].strip("[]"),
        port=int(address["port"] or SSH_PORT),
        private_key=credentials.get("private_key", ""),
        known_host=str(config.get("known_host", "")),
        folder=f"{folder.rstrip('/')}/{resource_id}",
        python=str(config.get("host_python") or "python3"),
        readable=tuple(_items(config.get("host_readable", ""))),
    )


def _check_private_key(text: str) -> None:
    import asyncssh  # noqa: PLC0415 (half a second, which a start without hosts is spared)

    try:
        asyncssh.import_private_key(text)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise InvalidResource(
            f"The private key cannot be read: {_key_advice(text, error)}", field="private_key"
        ) from error


def _key_advice(text: str, error: Exception) -> str:
    """Return what is wrong with a private key, and what to give in its place."""
    if "assphrase" in str(error):
        copy = "`ssh-keygen -p -N '' -f COPY`"
        return f"{error}. It is kept encrypted here, so give a copy without a passphrase: {copy}."
    if _PUBLIC_KEY.match(text):
        return "this is a public key. Give the file beside it, whose name does not end with .pub."
    return f"{error}. Give a file that `ssh-keygen` made, whole."


def _check_known_host(host: Host) -> None:
    import asyncssh  # noqa: PLC0415

    try:
        keys, authorities, *_ = asyncssh.import_known_hosts(host.known_host).match(host.name, "", host.port)
    except ValueError as error:
        raise InvalidResource(f"The known host cannot be read: {error}.", field="known_host") from error
    if not (keys or authorities):
        raise InvalidResource(
            f"No line of the known host is about {host.known_name}. A line has the name, the type and the key.",
            field="known_host",
        )


def _platform_url(config: Mapping[str, Any]) -> str:
    return str(config.get("host_platform_url") or django_settings.NEARLINE.url).rstrip("/")


KIND = ResourceKind(
    name="ssh",
    label="ssh: a Linux host that is entered with a key",
    hint="The host is asked for its cores, memory and GPUs. It needs Python 3.11, and has to reach this address.",
    form=SshForm,
    check=check,
    open=open_driver,
    withdraw=withdraw,
    site_of=site_of,
    mountable=MOUNTABLE,
    ignores_images=True,
    is_remote=True,
    keeps_checkpoints=True,
    volumes_of=list_volumes,
    volumes_help="the folders for jobs in the settings of the host",
    changeable=lambda _: ("host_python", "host_readable", "host_volumes", "host_platform_url"),
    keep_ended=timedelta(hours=1),
)
