"""Cache sites of kind `ssh`: a folder of an attached host, filled there, that the host's jobs read."""

import posixpath

from django import forms

from core.remote_hosts import HostNotAttached, HostUnreachable, RemoteHost, open_host
from datasets.adapters.sites.folder.kind import FolderForm
from datasets.adapters.sites.kinds import SiteKind
from datasets.adapters.sites.ssh.driver import SshSite
from datasets.errors import CacheSiteUnavailable, InvalidCacheSite
from datasets.models import CacheSite, CacheSiteKind

_TRY_S = 90.0


class SshForm(FolderForm):
    """Which host, and which folder there."""

    resource = forms.CharField(
        max_length=63,
        required=False,
        label="Host",
        help_text="The name of a host that is attached by SSH.",
    )


def check(site: CacheSite) -> None:
    """Require a host that is attached by SSH, and a folder there that its user can write and that is nobody else's.

    The host also tries whether its Python runs the program that fills copies. Raises InvalidCacheSite and
    CacheSiteUnavailable.
    """
    resource = site.config.get("resource")
    if unknown := sorted(set(site.config) - {"resource", "hard_links"}):
        raise InvalidCacheSite(f"A site of kind ssh has no setting '{unknown[0]}'.")
    if not isinstance(resource, str) or not resource:
        raise InvalidCacheSite("A site of kind ssh needs 'resource': the name of a host that is attached by SSH.")
    folder = site.root.rstrip("/")
    if not folder.startswith("/") or posixpath.normpath(folder) != folder or folder.startswith("//"):
        raise InvalidCacheSite(f"The folder on the host is given from the root on and without '..', unlike '{folder}'.")
    try:
        host = open_host(resource)
    except HostNotAttached as error:
        raise InvalidCacheSite(error.message) from error
    for other in CacheSite.objects.filter(kind=CacheSiteKind.SSH, config__resource=host.resource).exclude(pk=site.pk):
        if f"{folder}/".startswith(f"{other.root}/") or f"{other.root}/".startswith(f"{folder}/"):
            raise InvalidCacheSite(f"{folder} and {other.root} of the site '{other.name}' lie in each other.")
    site.root, site.config = folder, {"resource": host.resource, **_try_out(host, folder, site.pk)}


def _try_out(host: RemoteHost, folder: str, site_id: str) -> dict[str, bool]:
    try:
        answer = host.ask("check_copies", root=folder, site=site_id, reply_timeout_s=_TRY_S)
    except HostUnreachable as error:
        raise CacheSiteUnavailable(error.message) from error
    if answer["fault"]:
        raise InvalidCacheSite(answer["fault"])
    return {"hard_links": answer["hard_links"]}


def open_driver(site: CacheSite) -> SshSite:
    """Return the driver."""
    try:
        return SshSite(site, open_host(str(site.config["resource"])))
    except HostNotAttached as error:
        raise CacheSiteUnavailable(f"The host of {site.name} cannot be reached: {error.message}") from error


KIND = SiteKind(
    name="ssh",
    label="ssh: a folder of a host that is attached by SSH, for its jobs",
    form=SshForm,
    check=check,
    open=open_driver,
    default_part=0.8,
    works_alone=True,
    pauses=True,
    stops_by_call=True,
    is_read_early=True,
)
