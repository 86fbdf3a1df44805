"""Cache sites of kind `existing`: files that were on a claim or an NFS export before us, taken in as one commit.

They are compared with the commit, or become it by an import in place. They are never changed: neither healed nor
deleted. Eviction only forgets them.
"""

from django import forms

from core.kubernetes.connections import ClusterConnection
from core.kubernetes.errors import ClusterUnreachable
from core.kubernetes.gateway import Refusal
from datasets.adapters.sites.existing.driver import ExistingSite
from datasets.adapters.sites.kinds import SiteKind
from datasets.adapters.sites.nfs.kind import NfsForm, check_export
from datasets.adapters.sites.volume.kind import check_config, connection_of, open_cluster
from datasets.engine.volumes import folder_fault
from datasets.errors import CacheSiteUnavailable, InvalidCacheSite
from datasets.models import CacheSite, Commit

_KEYS = {"resource", "commit", "claim", "server", "path", "folder", "size_bytes"}


class ExistingForm(NfsForm):
    """Which files, and of which commit they are."""

    size_bytes = fill_pods = bytes_per_pod = None  # type: ignore[assignment]  # Django's way to leave fields out
    commit = forms.CharField(
        max_length=64,
        required=False,
        label="Commit",
        help_text="Its id: what existing files are. Empty: they become one, see Sources.",
    )
    claim = forms.CharField(max_length=253, required=False, label="Claim", help_text="Of the cluster's namespace.")
    folder = forms.CharField(max_length=1000, required=False, label="Folder", help_text="On the claim or export.")


def check(site: CacheSite) -> None:
    """Require an attached cluster, a claim that is there or an export, and a commit. Raises InvalidCacheSite."""
    config = site.config
    if faults := [key for key in sorted(_KEYS - {"size_bytes"}) if not isinstance(config.get(key, ""), str)]:
        raise InvalidCacheSite(f"'{faults[0]}' of a site of kind existing is a text.")
    config.setdefault("commit", "")
    commit = Commit.objects.filter(pk=config["commit"]).first()
    if config["commit"] and commit is None:
        raise InvalidCacheSite(f"There is no commit '{config['commit']}' that the files could be.")
    config["size_bytes"] = max(1, commit.size_bytes) if commit is not None else 1
    check_config(site, keys=_KEYS, needed={})
    if bool(config.get("claim")) == bool(config.get("server")):
        raise InvalidCacheSite("Existing files are on a claim of the namespace, or on an NFS server: name one of them.")
    if fault := folder_fault(config.get("folder", "")):
        raise InvalidCacheSite(fault)
    if config.get("server"):
        check_export(config)
    connection = open_cluster(config)
    if config.get("claim"):
        _require_claim(connection, config["claim"])
    site.root = f"existing://{site.name}"


def _require_claim(connection: ClusterConnection, name: str) -> None:
    path = f"/api/v1/namespaces/{connection.namespace}/persistentvolumeclaims"
    try:
        names = sorted(item["metadata"]["name"] for item in connection.gateway.list(path).items)
    except ClusterUnreachable as error:
        raise CacheSiteUnavailable(error.message) from error
    except Refusal as error:
        raise InvalidCacheSite(f"The cluster does not tell its claims: {error.message}") from error
    if name not in names:
        raise InvalidCacheSite(
            f"The namespace {connection.namespace} has no claim '{name}'. It has: {', '.join(names) or 'none'}."
        )


def open_driver(site: CacheSite) -> ExistingSite:
    """Return the driver."""
    return ExistingSite(site, connection_of(site))


KIND = SiteKind(
    name="existing",
    label="existing: files on a claim or NFS export that are a commit already, and stay as they are",
    form=ExistingForm,
    check=check,
    open=open_driver,
    default_part=1.0,
    works_alone=True,
)
