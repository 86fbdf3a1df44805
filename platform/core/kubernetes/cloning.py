"""Which provisioners can make a claim of another claim, as far as that is known: Kubernetes does not tell."""

from core.kubernetes import trident

# Beginnings or ends of the names of provisioners.
_CAN = (
    trident.PROVISIONER,
    *("cephfs.csi.ceph.com", "rbd.csi.ceph.com", "nfs.csi.k8s.io", "disk.csi.azure.com", "pd.csi.storage.gke.io"),
)
_CANNOT = ("efs.csi.aws.com", "local-path", "nfs-subdir-external-provisioner", "kubernetes.io/no-provisioner")


def can_clone(provisioner: str) -> bool | None:
    """Say whether claims of a provisioner can be cloned; None: that is not known."""
    if provisioner.endswith(_CANNOT):
        return False
    return True if provisioner.endswith(_CAN) else None
