"""What is known of provisioners of volumes: which of them can clone, and what NetApp's Trident is to be told."""

TRIDENT = "csi.trident.netapp.io"
TRIDENT_GROUP = "trident.netapp.io"
SHARED_WITH, SHARE_OF = f"{TRIDENT_GROUP}/shareToNamespace", f"{TRIDENT_GROUP}/shareFromPVC"
"""The annotations of a claim that other namespaces may share, with their names, and of one that shares it."""
SHARE_PERMISSIONS = (
    (TRIDENT_GROUP, "tridentvolumereferences", ("create", "delete")),
    ("", "persistentvolumeclaims", ("get", "list", "create", "patch", "delete")),
)
"""What an account may do in a namespace that shares claims of another one."""
CLAIM_ANNOTATIONS = {
    f"{TRIDENT_GROUP}/{key}": value
    for key, value in {
        "snapshotPolicy": "none",
        "snapshotDirectory": "true",
        # Pods that fill it do not run as root, and cannot take the folder over.
        "unixPermissions": "0777",
        # Else its space stays taken for half a day after it was deleted.
        "skipRecoveryQueue": "true",
    }.items()
}
"""Annotations of a claim, which mean nothing to other provisioners."""

# Beginnings or ends of the names of provisioners. Who can clone is known by these alone: Kubernetes does not tell.
_CAN = (
    TRIDENT,
    *("cephfs.csi.ceph.com", "rbd.csi.ceph.com", "nfs.csi.k8s.io", "disk.csi.azure.com", "pd.csi.storage.gke.io"),
)
_CANNOT = ("efs.csi.aws.com", "local-path", "nfs-subdir-external-provisioner", "kubernetes.io/no-provisioner")


def can_clone(provisioner: str) -> bool | None:
    """Say whether claims of a provisioner can be cloned; None: that is not known."""
    if provisioner.endswith(_CANNOT):
        return False
    return True if provisioner.endswith(_CAN) else None
