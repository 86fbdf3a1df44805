"""Copies on claims that jobs in other namespaces of the cluster read: Trident mounts a volume in several of them.

The claim says who may share it. Whoever reads it makes a claim there that does, named as ours
(`compute/adapters/kubernetes/shares.py`).
"""

from core.kubernetes import access, trident
from core.kubernetes.connections import ClusterConnection
from core.kubernetes.errors import ClusterUnreachable
from core.kubernetes.gateway import Refusal
from datasets.errors import CacheSiteUnavailable, InvalidCacheSite
from datasets.models import CacheSite


def check(site: CacheSite, source: ClusterConnection | None, reader: ClusterConnection | None) -> None:
    """Require that jobs of another cluster resource can read a site. Raises InvalidCacheSite and CacheSiteUnavailable.

    `source` is the connection of the site, and `reader` that of the resource; None: it is on no cluster, or none.
    """
    try:
        if source is None or reader is None or _id_of(source) != _id_of(reader):
            raise InvalidCacheSite(f"The cache site {site.name} is on another cluster or host.")
        if source.namespace == reader.namespace:
            return
        provisioner = site.config.get("provisioner")
        if provisioner != trident.PROVISIONER:
            raise InvalidCacheSite(
                f"The cache site {site.name} is in another namespace, and its class {site.config['storage_class']} is "
                f"of {provisioner}: only Trident shares volumes with other namespaces."
            )
        if missing := access.find_missing(reader.gateway, trident.SHARE_PERMISSIONS, reader.namespace):
            raise InvalidCacheSite(f"The cache site {site.name} cannot be shared. {missing}")
    except ClusterUnreachable as error:
        raise CacheSiteUnavailable(error.message) from error
    except Refusal as error:
        raise InvalidCacheSite(f"The cluster does not tell which one it is: {error.message}") from error


def _id_of(connection: ClusterConnection) -> str:
    """Return what tells a cluster from all others."""
    namespace = connection.gateway.get("/api/v1/namespaces/kube-system") or {}
    return str(namespace.get("metadata", {}).get("uid"))
