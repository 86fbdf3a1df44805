"""What NetApp's Trident, a provisioner of volumes, is to be told of the claims that are made here."""

PROVISIONER = "csi.trident.netapp.io"
CLAIM_ANNOTATIONS = {
    f"{PROVISIONER.removeprefix('csi.')}/{key}": value
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
