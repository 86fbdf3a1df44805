"""Cache sites of kind `nfs`: a folder for each commit in an export of an NFS server, without any provisioner.

The pods of an attached cluster mount it, to fill it and to read it. Whether they can is seen with the first copy: the
platform itself mounts nothing.
"""

import posixpath
import re
from collections.abc import Mapping

from django import forms

from core.form_fields import SizeField
from datasets.adapters.sites.kinds import SiteKind
from datasets.adapters.sites.volume.kind import FillForm, check_config, check_settings, connection_of, open_cluster
from datasets.adapters.sites.volume.pool import ExportSite
from datasets.engine.volumes import BYTES_PER_POD, FILL_PODS
from datasets.errors import InvalidCacheSite
from datasets.models import CacheSite

_SERVER = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?")


class NfsForm(FillForm):
    """Which export, and the cluster whose pods mount it."""

    resource = forms.CharField(
        max_length=63, required=False, label="Cluster", help_text="The name or id of an attached cluster."
    )
    server = forms.CharField(
        max_length=253, required=False, label="NFS server", help_text="Its name or address as nodes know it."
    )
    path = forms.CharField(max_length=1000, required=False, label="Export", help_text="As /exports/cache.")
    size_bytes = SizeField(required=False, label="Size", help_text="As 2 TB.")
    field_order = ("resource", "server", "path", "size_bytes")


def check(site: CacheSite) -> None:
    """Require an attached cluster, an export and a size. Raises InvalidCacheSite.

    Where the file system makes no hard links, the site's `hard_links` says so.
    """
    keys = {"resource", "server", "path", "size_bytes", "hard_links", FILL_PODS, BYTES_PER_POD}
    check_config(site, keys=keys, needed={"server": "the name of an NFS server", "path": "an export of it"})
    check_export(site.config)
    open_cluster(site.config)
    site.root = f"nfs://{site.config['server']}{site.config['path']}"


def check_export(config: Mapping[str, object]) -> None:
    """Require names that can be those of a server and of an export. Raises InvalidCacheSite."""
    server, path = str(config.get("server", "")), str(config.get("path", ""))
    if not _SERVER.fullmatch(server):
        raise InvalidCacheSite(f"'{server}' is no name or address of a server.")
    if not path.startswith("/") or posixpath.normpath(path) != path or path.startswith("//"):
        raise InvalidCacheSite(f"An export is given from the root on and without '..', unlike '{path}'.")


def open_driver(site: CacheSite) -> ExportSite:
    """Return the driver."""
    return ExportSite(site, connection_of(site))


KIND = SiteKind(
    name="nfs",
    label="nfs: an export that the pods of an attached cluster mount, a folder for each commit",
    form=NfsForm,
    check=check,
    open=open_driver,
    default_part=1.0,
    settings_of=lambda _site: FillForm,
    check_settings=check_settings,
    works_alone=True,
    pauses=True,
    stops_by_call=True,
)
