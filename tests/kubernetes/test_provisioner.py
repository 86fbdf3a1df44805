"""The stand-in for Trident shows a client of the API what the real controller was seen to show."""

import secrets

import pytest

from tests.kubernetes import manifests
from tests.kubernetes.api import LIMIT_S
from tests.kubernetes.provisioner import BACKEND, NAMESPACE, STORAGE_CLASS, Provisioner

GIB = 2**30
TRIDENT = f"/apis/trident.netapp.io/v1/namespaces/{NAMESPACE}"


@pytest.fixture(scope="module")
def provisioner(control_plane, tmp_path_factory):
    """A backend of 100 GiB whose first retry comes after 0.2 s."""
    started = Provisioner(control_plane.api, tmp_path_factory.mktemp("array"), retry_s=0.2)
    started.start()
    yield started
    started.stop()


@pytest.fixture
def claims(control_plane, namespace, provisioner) -> str:
    """The path of the claims of this test."""
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"


def events_of(control_plane, claim: dict) -> list[dict]:
    path = f"/api/v1/namespaces/{claim['metadata']['namespace']}/events"
    events = control_plane.api.list(path)
    return [event for event in events if event["involvedObject"]["uid"] == claim["metadata"]["uid"]]


def wait_for_event(control_plane, claim: dict, reason: str = "ProvisioningFailed") -> dict:
    """Wait for an event about a claim."""
    path = f"/api/v1/namespaces/{claim['metadata']['namespace']}/events"
    for _, event in control_plane.api.watch(path, timeout_s=LIMIT_S):
        if event["reason"] == reason and event["involvedObject"]["uid"] == claim["metadata"]["uid"]:
            return event
    raise AssertionError(f"no event {reason} came")


def test_a_claim_is_bound_to_a_volume_with_the_annotations_and_objects_of_trident(control_plane, claims, provisioner):
    options = {"trident.netapp.io/snapshotPolicy": "none", "trident.netapp.io/unixPermissions": "0755"}
    control_plane.api.create(claims, manifests.claim("data", STORAGE_CLASS, size="10Gi", annotations=options))

    bound = control_plane.api.wait(f"{claims}/data", manifests.is_bound)

    volume = f"pvc-{bound['metadata']['uid']}"
    assert bound["spec"]["volumeName"] == volume
    assert bound["status"]["capacity"] == {"storage": "10Gi"}
    assert bound["metadata"]["annotations"].items() >= options.items()
    persistent = control_plane.api.get(f"/api/v1/persistentvolumes/{volume}")
    assert persistent["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == "csi.trident.netapp.io"
    config = control_plane.api.get(f"{TRIDENT}/tridentvolumes/{volume}")["config"]
    assert (config["size"], config["requestName"], config["unixPermissions"]) == ("10737418240", "data", "0755")
    assert provisioner.folder_of(volume).stat().st_mode & 0o777 == 0o755
    wait_for_event(control_plane, bound, "ProvisioningSucceeded")
    told = {event["reason"] for event in events_of(control_plane, bound)}
    assert told - {"ExternalProvisioning"} == {"Provisioning", "ProvisioningSuccess", "ProvisioningSucceeded"}


def test_a_small_request_is_rounded_up_to_the_least_size_of_the_driver(control_plane, claims):
    control_plane.api.create(claims, manifests.claim("small", STORAGE_CLASS, size="1Mi"))

    bound = control_plane.api.wait(f"{claims}/small", manifests.is_bound)

    assert bound["status"]["capacity"] == {"storage": "20Mi"}


def test_a_deleted_claim_takes_its_volume_and_data_along(control_plane, claims, provisioner):
    control_plane.api.create(claims, manifests.claim("data", STORAGE_CLASS))
    volume = control_plane.api.wait(f"{claims}/data", manifests.is_bound)["spec"]["volumeName"]

    control_plane.api.delete(f"{claims}/data")

    control_plane.api.wait_until_gone(f"/api/v1/persistentvolumes/{volume}")
    assert not control_plane.api.exists(f"{TRIDENT}/tridentvolumes/{volume}")
    assert not provisioner.folder_of(volume).exists()


def test_a_clone_by_annotation_has_the_content_and_the_size_of_its_source(control_plane, claims, provisioner):
    control_plane.api.create(claims, manifests.claim("source", STORAGE_CLASS, size="10Gi"))
    source = control_plane.api.wait(f"{claims}/source", manifests.is_bound)["spec"]["volumeName"]
    (provisioner.folder_of(source) / "name").write_text("digits")
    wish = {"trident.netapp.io/cloneFromPVC": "source"}

    control_plane.api.create(claims, manifests.claim("clone", STORAGE_CLASS, size="5Gi", annotations=wish))

    clone = control_plane.api.wait(f"{claims}/clone", manifests.is_bound)
    assert clone["status"]["capacity"] == {"storage": "10Gi"}
    assert (provisioner.folder_of(clone["spec"]["volumeName"]) / "name").read_text() == "digits"
    config = control_plane.api.get(f"{TRIDENT}/tridentvolumes/{clone['spec']['volumeName']}")["config"]
    assert config["cloneSourceVolume"] == source


@pytest.mark.parametrize(
    ("way", "size", "message"),
    [
        ("annotation", "12Gi", "requested PVC size '12884901888' is too large for the clone source '10737418240'"),
        ("data source", "12Gi", "requested PVC size '12884901888' is too large for the clone source '10737418240'"),
        ("data source", "5Gi", "requested 5368709120 but source is 10737418240"),
    ],
)
def test_a_clone_of_a_size_that_the_real_controller_refuses_stays_pending(control_plane, claims, way, size, message):
    control_plane.api.create(claims, manifests.claim("source", STORAGE_CLASS, size="10Gi"))
    control_plane.api.wait(f"{claims}/source", manifests.is_bound)
    wish = manifests.claim("clone", STORAGE_CLASS, size=size)
    if way == "annotation":
        wish["metadata"]["annotations"] = {"trident.netapp.io/cloneFromPVC": "source"}
    else:
        wish["spec"]["dataSource"] = {"kind": "PersistentVolumeClaim", "name": "source"}

    clone = control_plane.api.create(claims, wish)

    failure = wait_for_event(control_plane, clone)
    assert failure["type"] == "Warning"
    assert failure["message"].startswith(f'failed to provision volume with StorageClass "{STORAGE_CLASS}": ')
    assert failure["message"].endswith(message)
    assert control_plane.api.get(f"{claims}/clone")["status"]["phase"] == "Pending"


def test_a_share_is_bound_once_the_source_and_its_namespace_allow_it_and_outlives_the_source(
    control_plane, claims, provisioner
):
    api, here = control_plane.api, claims.split("/")[4]
    there = control_plane.create_namespace(f"team-{secrets.token_hex(4)}")
    wish = {"trident.netapp.io/shareFromPVC": f"{here}/source"}
    api.create(claims, manifests.claim("source", STORAGE_CLASS, size="2Gi"))
    source = api.wait(f"{claims}/source", manifests.is_bound)["spec"]["volumeName"]
    shares = f"/api/v1/namespaces/{there}/persistentvolumeclaims"
    share = api.create(shares, manifests.claim("share", STORAGE_CLASS, size="1Gi", annotations=wish))
    assert wait_for_event(control_plane, share)["message"].endswith(
        f"volume reference {there}_{here}/source not found in cache"
    )

    spec = {"pvcName": "source", "pvcNamespace": here}
    references = f"/apis/trident.netapp.io/v1/namespaces/{there}/tridentvolumereferences"
    meta = {"apiVersion": "trident.netapp.io/v1", "kind": "TridentVolumeReference", "metadata": {"name": "source"}}
    api.create(references, {**meta, "spec": spec})
    api.patch(f"{claims}/source", {"metadata": {"annotations": {"trident.netapp.io/shareToNamespace": there}}})

    volume = api.wait(f"{shares}/share", manifests.is_bound)["spec"]["volumeName"]
    subordinate = api.get(f"{TRIDENT}/tridentvolumes/{volume}")
    assert (subordinate["state"], subordinate["config"]["shareSourceVolume"]) == ("subordinate", source)
    folder = str(provisioner.folder_of(source))
    assert api.get(f"/api/v1/persistentvolumes/{volume}")["spec"]["hostPath"]["path"] == folder
    api.delete(f"{claims}/source")
    api.wait_until_gone(f"/api/v1/persistentvolumes/{source}")
    assert api.get(f"{TRIDENT}/tridentvolumes/{source}")["state"] == "deleting"
    assert provisioner.folder_of(source).exists()
    api.delete(f"{shares}/share")
    api.wait_until_gone(f"{TRIDENT}/tridentvolumes/{source}")
    assert not provisioner.folder_of(source).exists()


def test_a_claim_for_more_than_a_full_backend_has_is_bound_once_there_is_space(control_plane, claims, provisioner):
    control_plane.api.create(claims, manifests.claim("large", STORAGE_CLASS, size="500Gi"))

    failure = wait_for_event(control_plane, control_plane.api.get(f"{claims}/large"))

    assert f"requested volume is too large, requested {500 * GIB} bytes, have " in failure["message"]
    assert f"backend {BACKEND}" in failure["message"]
    provisioner.resize_backend(1000 * GIB)
    assert control_plane.api.wait(f"{claims}/large", manifests.is_bound)["status"]["capacity"] == {"storage": "500Gi"}


def test_a_broken_array_is_told_in_the_words_of_the_array_while_the_backend_says_online(
    control_plane, claims, provisioner
):
    provisioner.break_backend("error checking for existing volume: [GET /storage/volumes][401] User is not authorized")
    control_plane.api.create(claims, manifests.claim("data", STORAGE_CLASS))

    failure = wait_for_event(control_plane, control_plane.api.get(f"{claims}/data"))

    assert "User is not authorized" in failure["message"]
    assert control_plane.api.get(f"{TRIDENT}/tridentbackends/{BACKEND}")["state"] == "online"
    provisioner.break_backend("")
    control_plane.api.wait(f"{claims}/data", manifests.is_bound)


def test_an_offline_backend_says_why(control_plane, provisioner):
    provisioner.set_backend_state("offline", "SVM is not reachable")

    backend = control_plane.api.get(f"{TRIDENT}/tridentbackends/{BACKEND}")

    assert (backend["state"], backend["online"], backend["stateReason"]) == ("offline", False, "SVM is not reachable")
    provisioner.set_backend_state("online")
    assert "stateReason" not in control_plane.api.get(f"{TRIDENT}/tridentbackends/{BACKEND}")
