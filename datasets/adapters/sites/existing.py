"""Cache sites of kind `existing`: files that were on a claim or an NFS export before us, taken in as one commit.

A pod compares them with the commit, or makes the commit of them by an import in place, with the volume mounted
read-only. They are read where they are and never changed: neither healed nor deleted. Eviction only forgets them.
"""

from collections.abc import Callable

from django import forms
from django.db.models import QuerySet

from core.kubernetes.connections import ClusterConnection
from core.kubernetes.errors import ClusterUnreachable
from core.kubernetes.gateway import Refusal
from datasets.adapters.copy_tokens import sign_import
from datasets.adapters.sites import copy_work
from datasets.adapters.sites.copy_work import COUNTS, ready
from datasets.adapters.sites.kinds import SiteKind
from datasets.adapters.sites.nfs import NfsForm, check_export
from datasets.adapters.sites.volume import manifests
from datasets.adapters.sites.volume.kind import check_config, connection_of, open_cluster
from datasets.adapters.sites.volume.manifests import Storage
from datasets.adapters.sites.volume.pods import as_site_errors, failure
from datasets.adapters.sites.volume.pool import PoolSite
from datasets.engine.cache_ports import CacheSiteDriver, CopyProgress, CopyRequest, Sharing
from datasets.engine.volumes import claim_name, folder_fault
from datasets.errors import CacheSiteUnavailable, InvalidCacheSite
from datasets.models import CachedCommit, CacheSite, Commit

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


class ExistingSite(PoolSite):
    """One copy, which was there before us."""

    fills_by = verifies_by = "check"

    def __init__(self, site: CacheSite, connection: ClusterConnection) -> None:
        self._storage = manifests.existing_storage(site.config)
        super().__init__(site, connection, self._storage)
        self._all_copies: QuerySet[CachedCommit] = CachedCommit.objects.filter(site=site)

    @property
    def sharing(self) -> Sharing:
        """Nothing is shared with files that others may change."""
        return Sharing.NONE

    def can_read(self, other: CacheSiteDriver) -> bool:  # noqa: ARG002 (nothing is written here)
        """Need no other copy."""
        return False

    def storage_of(self, copy_id: str) -> Storage:  # noqa: ARG002 (there is one)
        """Return the folder."""
        return self._storage

    def delete(
        self,
        copy_id: str,
        *,
        location: str,  # noqa: ARG002 (no file is touched)
        token: str,  # noqa: ARG002 (the row's state is the fence)
        settle: Callable[[int], None] | None,
        keep_going: Callable[[], bool],  # noqa: ARG002 (it takes a few calls)
    ) -> bool:
        """Forget the copy. Its files stay, and pods that read them go on."""
        if settle is not None:
            settle(copy_work.freed_bytes(self._copies, copy_id))
        with as_site_errors(unreachable=True):
            self._hide(claim_name(copy_id))
            self._forget(claim_name(copy_id))
        return True

    def work_on_import(self, import_id: str, *, duty: str) -> str:
        """Have the Job of an import; return what it waits for, and nothing once it has succeeded.

        `duty` is `import` or `promote`. Raises VolumeRefused where it failed, and CacheSiteUnavailable.
        """
        name = claim_name(import_id)
        with as_site_errors(unreachable=True):
            path = f"{self._secrets}/{name}"
            record = manifests.build_record(f"{name}-import", site_id=self._site_id, annotations={})
            owner = self._gateway.create(self._secrets, record) or self._gateway.get(f"{path}-import") or {}
            job = self._have_job(name, owner, import_id, duty=duty, sign=sign_import)
            end, pods = manifests.end_of(job), self._pods_of(name)
            if not end:
                return self._find_pod_reason(job, pods) or "the pod that reads the files"
            self.end_import(import_id)
        if end == "Failed":
            raise failure(pods)
        return ""

    def end_import(self, import_id: str) -> None:
        """Leave nothing behind of the Job of an import."""
        name = claim_name(import_id)
        with as_site_errors(unreachable=True):
            self._end_job(name)
            self._gateway.delete(f"{self._secrets}/{name}-import")

    def _count_pods(self, copy: CopyRequest) -> int:  # noqa: ARG002 (nothing is brought)
        """Have one pod compare the files."""
        return 1

    def _ensure(self, copy: CopyRequest) -> CopyProgress:
        """Take the first copy of files that became the commit as it is: each was read and hashed just now."""
        if not self._config.get("imported") or self._all_copies.exclude(pk=copy.id).exists():
            return super()._ensure(copy)
        made = dict.fromkeys(COUNTS, 0)
        made |= {"files_done": copy.files, "bytes_done": copy.size_bytes, "bytes_shared": copy.size_bytes}
        self._mark(self._find_owner(copy.id) or self._create_record(copy), made)
        return ready(made)


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
