"""What tells a cluster from all others."""

from core.kubernetes.gateway import Gateway


def read_cluster_id(gateway: Gateway) -> str:
    """Return the uid of the namespace that every cluster has and nobody can make anew; empty: there is none.

    Raises Refusal and ClusterUnreachable.
    """
    namespace = gateway.get("/api/v1/namespaces/kube-system") or {}
    return str((namespace.get("metadata") or {}).get("uid") or "")
