"""What a copy on a claim waits for, read from what a cluster tells."""

import pytest

from datasets.adapters.sites.volume import reasons


def event(reason, message, *, count=1, at="2026-11-21T12:00:00Z", kind="Warning"):
    return {"reason": reason, "message": message, "count": count, "lastTimestamp": at, "type": kind}


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("no available storage for access modes [RWX]", "look at `kubectl get tridentbackends -A`."),
        ("no available backends for storage class nas", "Restart the Trident controller, or apply its backend again."),
        ("requested volume is too large, requested 5 bytes", "The storage has not enough free space"),
        ('persistentvolumeclaims "x" is forbidden: exceeded quota: few', "Raise the ResourceQuota of the namespace"),
        ('storageclass.storage.k8s.io "gold" not found', "Choose a storage class that exists"),
    ],
)
def test_what_is_known_to_help_is_said(message, advice):
    assert reasons.explain(message).startswith(message)
    assert advice in reasons.explain(message)


def test_a_claim_is_given_up_when_its_provisioner_failed_three_times_whatever_the_type_of_the_event():
    events = [
        event("Provisioning", "is provisioning"),
        event("ProvisioningFailed", "first", kind="Normal"),
        event("ProvisioningFailed", "newest", count=2, at="2026-11-21T12:01:00Z"),
    ]

    assert reasons.provisioning_failure(events) == ("newest.", True)
    assert reasons.provisioning_failure(events[:2]) == ("first.", False)
    assert reasons.provisioning_failure(events[:1]) == ("", False)


def test_a_pod_that_fits_on_no_node_is_told():
    condition = {"type": "PodScheduled", "reason": "Unschedulable", "message": "0/3 nodes are available"}

    waits = reasons.why_pods_wait([{"status": {"conditions": [condition]}}], [])

    assert waits == "a node on which the pod fits: 0/3 nodes are available"


def test_a_pod_that_is_refused_is_told_by_the_event_of_its_job():
    waits = reasons.why_pods_wait([], [event("FailedCreate", "violates PodSecurity")])

    assert waits == "a pod, which the cluster refuses: violates PodSecurity."


def test_a_volume_that_cannot_be_mounted_is_told():
    assert reasons.mount_failure([event("Scheduled", "on a"), event("FailedMount", "exit status 32")]) == (
        "the mount of the volume: exit status 32. Check that the export policy lets the nodes in."
    )


def test_of_a_mount_that_fails_it_is_told_what_the_program_said_and_not_its_whole_command():
    message = (
        "MountVolume.SetUp failed : mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t nfs"
    )
    message += " filer:/cache /var/lib/kubelet/volume\nOutput: mount.nfs: access denied by server\n"

    assert reasons.mount_failure([event("FailedMount", message)]) == (
        "the mount of the volume: mount.nfs: access denied by server. Check that the export policy lets the nodes in."
    )


def test_of_several_pods_the_one_that_ended_last_says_what_was_done():
    def ended(at, message):
        state = {"terminated": {"finishedAt": at, "message": message}}
        return {"status": {"containerStatuses": [{"name": "copy", "state": state}]}}

    pods = [ended("2026-11-21T12:02:00Z", '{"error": "late"}'), ended("2026-11-21T12:01:00Z", '{"error": "early"}')]

    assert reasons.read_result(pods) == {"error": "late"}
    assert reasons.read_result([ended("2026-11-21T12:03:00Z", "Killed"), *pods]) == {"error": "late"}
    assert reasons.read_result([]) == {}
