"""Cache sites of kind `volume`: claims of any storage class whose volumes many nodes can mount.

Each commit has one of its own, or is a folder of one that all share.
"""

from collections.abc import Collection, Mapping
from typing import Any

from django import forms

from core import bounds
from core.form_fields import SizeField
from core.kubernetes import access, provisioners
from core.kubernetes.connections import ClusterConnection, ClusterNotAttached, open_connection
from core.kubernetes.errors import ClusterUnreachable
from core.kubernetes.gateway import Gateway, Json, Refusal
from core.kubernetes.identity import read_cluster_id
from datasets.adapters.sites.kinds import SiteKind
from datasets.adapters.sites.volume.driver import VolumeSite
from datasets.adapters.sites.volume.manifests import SNAPSHOTS
from datasets.adapters.sites.volume.pool import ClaimPoolSite
from datasets.engine.volumes import (
    BYTES_PER_POD,
    FILL_PODS,
    MAX_VOLUMES,
    MOST_PODS,
    MOST_VOLUMES,
    POOL,
    is_pool,
)
from datasets.errors import CacheSiteUnavailable, InvalidCacheSite
from datasets.models import CacheSite

_KEYS = {
    *("resource", "storage_class", "size_bytes", "sharing", "clones", "snapshot_class", "hard_links"),
    *("provisioner", "binds_late", "namespace", FILL_PODS, BYTES_PER_POD, MAX_VOLUMES),
}
SNAPSHOT_PERMISSIONS = ((SNAPSHOTS, "volumesnapshots", ("get", "list", "create", "patch", "delete")),)
"""What the account may do where clones are made from snapshots."""
_SHARING = {"volume": "a volume for each commit", POOL: "one volume, a folder for each commit"}
_LIMITS = {FILL_PODS: MOST_PODS, BYTES_PER_POD: bounds.MAX_QUANTITY, MAX_VOLUMES: MOST_VOLUMES}


def _number_field(label: str, meaning: str, *, most: int, usual: str) -> forms.IntegerField:
    return forms.IntegerField(
        min_value=1,
        max_value=most,
        required=False,
        widget=forms.NumberInput(attrs={"placeholder": usual}),
        label=label,
        help_text=f"{meaning} Empty: {usual}.",
    )


class FillForm(forms.Form):
    """How many pods fill a copy."""

    fill_pods = _number_field("Pods that fill a commit", "At most so many at once.", most=MOST_PODS, usual="4")
    bytes_per_pod = SizeField(
        most=bounds.MAX_QUANTITY,
        fault_at_zero="A pod is worth more than nothing.",
        required=False,
        widget=forms.TextInput(attrs={"placeholder": "8 GiB"}),
        label="Bytes for each pod",
        help_text="A further pod for each so many. Empty: 8 GiB.",
    )


class VolumeSettings(FillForm):
    """What can be changed of a site with a volume for each commit."""

    max_volumes = _number_field("Maximum of volumes", "Of all commits together.", most=MOST_VOLUMES, usual="any number")


class VolumeForm(VolumeSettings):
    """Which cluster, which class, and how much of it."""

    resource = forms.CharField(
        max_length=63, required=False, label="Cluster", help_text="The name or id of an attached cluster."
    )
    storage_class = forms.CharField(
        max_length=253, required=False, help_text="Volumes of it are mounted by many nodes."
    )
    sharing = forms.ChoiceField(choices=list(_SHARING.items()), required=False, label="Sharing")
    size_bytes = SizeField(required=False, label="Size", help_text="As 2 TB.")
    field_order = ("resource", "storage_class", "sharing", "size_bytes", MAX_VOLUMES)


def check(site: CacheSite) -> None:
    """Require a cluster that answers, a storage class that it has, and a size. Raises InvalidCacheSite.

    Whether the class can clone is known of Trident's; for others the site's `clones` says so.
    """
    config = site.config
    check_config(site, keys=_KEYS, needed={"storage_class": "the name of a class"})
    if config.get("sharing", "volume") not in _SHARING:
        raise InvalidCacheSite(f"'sharing' of a site on volumes is one of: {', '.join(_SHARING)}.")
    if not isinstance(config.get("snapshot_class", ""), str):
        raise InvalidCacheSite("'snapshot_class' of a site on volumes is the name of a class; empty: no snapshots.")
    connection = open_cluster(config)
    class_facts = read_class(connection.gateway, config["storage_class"])
    binds_late = class_facts.get("volumeBindingMode") == "WaitForFirstConsumer"
    facts = {"provisioner": class_facts["provisioner"], "binds_late": binds_late, "namespace": connection.namespace}
    clones = config.get("clones", class_facts["provisioner"] == provisioners.TRIDENT)
    site.config = settle_snapshots({"clones": clones, **config, **facts}, connection)
    site.root = f"volume://{site.name}"


def check_config(site: CacheSite, *, keys: Collection[str], needed: Mapping[str, str]) -> None:
    """Require what every site on a cluster needs, texts that are `needed`, and no other `keys`."""
    config = site.config
    if unknown := sorted(set(config) - set(keys)):
        raise InvalidCacheSite(f"A site of kind {site.kind} has no setting '{unknown[0]}'.")
    for key, words in {"resource": "the name or id of an attached cluster", **needed}.items():
        if not isinstance(config.get(key), str) or not config[key]:
            raise InvalidCacheSite(f"A site of kind {site.kind} needs '{key}': {words}.")
    for key in {"clones", "hard_links"} & set(config):
        if config[key] not in {0, 1}:
            raise InvalidCacheSite(f"'{key}' of a site of kind {site.kind} is true or false.")
    size = config.get("size_bytes")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= bounds.MAX_QUANTITY:
        raise InvalidCacheSite(f"A site of kind {site.kind} needs 'size_bytes': how much its copies may take together.")
    check_settings(site)
    if site.root:
        raise InvalidCacheSite(f"A site of kind {site.kind} has no folder.")


def check_settings(site: CacheSite) -> None:
    """Require numbers that can be, where there are any. Raises InvalidCacheSite."""
    for key, most in _LIMITS.items():
        value = site.config.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
            raise InvalidCacheSite(f"'{key}' of a site of kind {site.kind} is a whole number from 1 to {most}.")
    if MAX_VOLUMES in site.config and not site.has_volumes:
        raise InvalidCacheSite(f"'{MAX_VOLUMES}' is for sites with a volume for each commit.")


def open_cluster(config: dict[str, Any]) -> ClusterConnection:
    """Return the connection to the cluster that a new site names, from now on by its id. Raises InvalidCacheSite."""
    try:
        connection = open_connection(config["resource"])
    except ClusterNotAttached as error:
        raise InvalidCacheSite(error.message) from error
    config["resource"] = connection.resource or config["resource"]
    return connection


def connection_of(site: CacheSite) -> ClusterConnection:
    """Return the connection to the cluster of a site. Raises CacheSiteUnavailable."""
    try:
        return open_connection(str(site.config["resource"]))
    except ClusterNotAttached as error:
        raise CacheSiteUnavailable(f"The cluster of {site.name} cannot be reached: {error.message}") from error


def open_driver(site: CacheSite) -> VolumeSite | ClaimPoolSite:
    """Return the driver."""
    return (ClaimPoolSite if is_pool(site.config) else VolumeSite)(site, connection_of(site))


def read_class(gateway: Gateway, storage_class: str) -> Json:
    """Return a storage class of a cluster. Raises InvalidCacheSite where there is none, and CacheSiteUnavailable."""
    try:
        class_object = gateway.get(f"/apis/storage.k8s.io/v1/storageclasses/{storage_class}")
        if class_object is None:
            listed = gateway.list("/apis/storage.k8s.io/v1/storageclasses").items
            names = ", ".join(sorted(item["metadata"]["name"] for item in listed)) or "none"
            raise InvalidCacheSite(f"The cluster has no storage class '{storage_class}'. It has: {names}.")
    except ClusterUnreachable as error:
        raise CacheSiteUnavailable(error.message) from error
    except Refusal as error:
        raise InvalidCacheSite(f"The cluster does not tell its storage classes: {error.message}") from error
    return class_object


def settle_snapshots(config: Mapping[str, Any], connection: ClusterConnection) -> dict[str, Any]:
    """Return the config of a site with the class by which it takes snapshots, where none was chosen and one is found.

    Its `warning` says what the account may not do any more. Raises CacheSiteUnavailable.
    """
    settled = {key: value for key, value in config.items() if key != "warning"}
    chosen = config.get("snapshot_class")
    if not config.get("clones") or chosen == "":
        return settled
    try:
        missing = access.find_missing(connection.gateway, SNAPSHOT_PERMISSIONS, connection.namespace)
        if chosen is None and not missing:
            classes = connection.gateway.list(f"/apis/{SNAPSHOTS}/v1/volumesnapshotclasses").items
            names = [each["metadata"]["name"] for each in classes if each.get("driver") == config.get("provisioner")]
            settled |= {"snapshot_class": min(names)} if names else {}
    except Refusal:
        return settled  # the cluster knows nothing of them, or does not tell
    except ClusterUnreachable as error:
        raise CacheSiteUnavailable(error.message) from error
    if chosen is not None and missing:
        settled["warning"] = f"Commits may be fetched whole instead of cloned from a snapshot. {missing}"
    return settled


def require_sharing(site: CacheSite, source: ClusterConnection | None, reader: ClusterConnection | None) -> None:
    """Require that jobs of another cluster resource can read a site. Raises InvalidCacheSite and CacheSiteUnavailable.

    In another namespace they read copies on claims that Trident mounts in several of them. The claim says who may share
    it. Whoever reads it makes a claim there that does, named as ours (`compute/adapters/kubernetes/shares.py`).
    `source` is the connection of the site, and `reader` that of the resource; None: it is on no cluster, or none.
    """
    try:
        if source is None or reader is None or read_cluster_id(source.gateway) != read_cluster_id(reader.gateway):
            raise InvalidCacheSite(f"The cache site {site.name} is on another cluster or host.")
        if source.namespace == reader.namespace:
            return
        provisioner = site.config.get("provisioner")
        if provisioner != provisioners.TRIDENT:
            raise InvalidCacheSite(
                f"The cache site {site.name} is in another namespace, and its class {site.config['storage_class']} is "
                f"of {provisioner}: only Trident shares volumes with other namespaces."
            )
        if missing := access.find_missing(reader.gateway, provisioners.SHARE_PERMISSIONS, reader.namespace):
            raise InvalidCacheSite(f"The cache site {site.name} cannot be shared. {missing}")
    except ClusterUnreachable as error:
        raise CacheSiteUnavailable(error.message) from error
    except Refusal as error:
        raise InvalidCacheSite(f"The cluster does not tell which one it is: {error.message}") from error


KIND = SiteKind(
    name="volume",
    label="volume: on an attached cluster, a claim for each commit or one for all",
    form=VolumeForm,
    check=check,
    open=open_driver,
    default_part=1.0,
    settings_of=lambda site: VolumeSettings if site.has_volumes else FillForm,
    check_settings=check_settings,
    works_alone=True,
    pauses=True,
    stops_by_call=True,
)
