"""What NetApp's Trident, a provisioner of volumes, is to be told of the claims that are made here."""

PROVISIONER = "csi.trident.netapp.io"
GROUP = "trident.netapp.io"
SHARED_WITH, SHARE_OF = f"{GROUP}/shareToNamespace", f"{GROUP}/shareFromPVC"
"""The annotations of a claim that other namespaces may share, with their names, and of one that shares it."""
SHARE_PERMISSIONS = (
    (GROUP, "tridentvolumereferences", ("create", "delete")),
    ("", "persistentvolumeclaims", ("get", "list", "create", "patch", "delete")),
)
"""What an account may do in a namespace that shares claims of another one."""
CLAIM_ANNOTATIONS = {
    f"{GROUP}/{key}": value
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
