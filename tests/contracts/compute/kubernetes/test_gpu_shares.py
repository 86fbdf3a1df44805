"""How pods of jobs come to share a GPU, and what is done when one of them, or the reservation, goes."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from compute.adapters.kubernetes import fields, gpu_shares, manifests
from compute.adapters.kubernetes.gpu_shares import settle
from compute.adapters.kubernetes.manifests import PodSettings, build_gang, build_pod, check_launch
from compute.engine.ports import EndCause, GpuShare, JobReport, Replica, ReportState
from compute.errors import StartRefused
from nearline.pod import devices
from tests.contracts.compute_driver import make_launch

SETTINGS = PodSettings(
    namespace="jobs",
    resource="res_1",
    platform_url="http://nearline.test",
    agent_image="agent:1",
    runtime_class="nvidia",
)
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WAIT = "The GPU that it shares is being reserved on node-1."


def launch(name="half", index=0, milli=500, **spec):
    return replace(make_launch(name, image="lab/train:1", **spec), gpus=(GpuShare(index, milli),))


def gated(name="half", index=0):
    pod = build_pod(launch(name, index), SETTINGS)
    pod["metadata"]["uid"] = f"uid-of-{name}"
    return fields.trim(pod, fields.OURS)


def opened(name="half", device="GPU-a", phase="Running"):
    pod = gated(name)
    patch = gpu_shares.opening(pod, device)
    pod["metadata"]["annotations"] |= patch["metadata"]["annotations"]
    pod["spec"] |= patch["spec"]
    return {**pod, "status": {"phase": phase}}


def reservation(device="GPU-a", *, phase="Running", message="", deleted=False, conditions=()):
    name = manifests.reservation_name(SETTINGS, "node-1", 0)
    pod = gpu_shares.build_reservation(SETTINGS, name, gated())
    pod["metadata"] |= {
        "uid": "uid-1",
        **({"deletionTimestamp": "now", "deletionGracePeriodSeconds": 5} if deleted else {}),
    }
    pod["spec"]["nodeName"] = "node-1"
    message = message or json.dumps({"device": device})
    ended = {"exitCode": 0 if device else 1, "message": message}
    states = [{"name": "tell", "state": {"terminated": ended}}] if device or phase == "Failed" else []
    ready = [{"type": "Ready", "status": "True"}]
    return {**pod, "status": {"phase": phase, "initContainerStatuses": states, "conditions": [*ready, *conditions]}}


def test_a_pod_with_a_part_of_a_gpu_asks_for_none_and_sees_the_one_that_is_reserved():
    pod = build_pod(launch(env={"NVIDIA_VISIBLE_DEVICES": "all"}), SETTINGS)
    (main,) = pod["spec"]["containers"]

    assert "nvidia.com/gpu" not in main["resources"]["requests"]
    assert [item for item in main["env"] if item["name"] == "NVIDIA_VISIBLE_DEVICES"] == [
        {
            "name": "NVIDIA_VISIBLE_DEVICES",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['nearline.dev/gpu']"}},
        }
    ]
    own = {item["name"]: item.get("value") for item in main["env"]}
    assert (own["NEARLINE_GPU_FRACTION"], own["NEARLINE_GPU_CAP"]) == ("0.5", "uncapped")
    assert pod["spec"]["schedulingGates"] == [{"name": "nearline.dev/gpu-reserved"}]
    assert pod["spec"]["runtimeClassName"] == "nvidia"


def test_all_shares_of_a_device_have_one_reservation_which_takes_the_device_and_no_cpu_or_memory():
    half, other = build_pod(launch("half"), SETTINGS), build_pod(launch("other", milli=250), SETTINGS)
    elsewhere = build_pod(launch("elsewhere", index=1), SETTINGS)

    ((made, _),) = settle([half, other], SETTINGS, NOW).missing

    names = [gpu_shares.reservation_of(pod) for pod in (half, other, elsewhere)]
    assert (names[0], names[0] == names[2]) == (names[1], False)
    assert made["metadata"]["name"] == names[0]
    assert made["spec"]["affinity"] == half["spec"]["affinity"]
    for container in (*made["spec"]["initContainers"], *made["spec"]["containers"]):
        assert container["resources"]["requests"] == {"cpu": "0", "memory": "0", "nvidia.com/gpu": "1"}
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_replicas_of_a_gang_share_devices_of_their_own_nodes():
    gang = replace(launch(), peers=(Replica("node-1", (GpuShare(0, 500),)), Replica("node-2", (GpuShare(0, 500),))))

    found = settle(build_gang(gang, SETTINGS), SETTINGS, NOW)

    assert [(manifests.node_of(made), len(waiting)) for made, waiting in found.missing] == [
        ("node-1", 2),
        ("node-2", 1),
    ]


def test_only_gpus_of_nvidia_are_shared():
    amd = replace(SETTINGS, gpu_resource="amd.com/gpu")

    with pytest.raises(StartRefused, match=r"this cluster's are called amd\.com/gpu\."):
        check_launch(launch(), amd)
    check_launch(launch(milli=1000), amd)


def test_pods_wait_until_the_reservation_has_told_its_device_and_are_then_opened_together():
    pods = [gated("half"), gated("other")]

    lacking = settle(pods, SETTINGS, NOW)
    starting = settle([*pods, reservation(device="", phase="Pending")], SETTINGS, NOW)
    told = settle([*pods, reservation("GPU-a")], SETTINGS, NOW)

    ((made, waiting),) = lacking.missing
    assert (made["metadata"]["name"], waiting) == (gpu_shares.reservation_of(pods[0]), pods)
    assert lacking.waits == {"half": WAIT, "other": WAIT}
    assert starting.waits["half"] == f"{WAIT} The node prepares the pod."
    assert (starting.missing, starting.open) == ([], [])
    assert told.open == [(pods[0], "GPU-a"), (pods[1], "GPU-a")]


def test_a_reservation_stays_as_long_as_one_of_its_pods_may_run():
    one, other = opened("one"), opened("other", phase="Succeeded")

    assert settle([one, other, reservation()], SETTINGS, NOW).unused == []
    (unused,) = settle([other, reservation()], SETTINGS, NOW).unused
    assert unused["metadata"]["uid"] == "uid-1"
    assert settle([reservation(deleted=True)], SETTINGS, NOW).unused == []


def test_one_that_is_being_given_back_opens_no_pod_and_another_is_made_once_it_is_gone():
    found = settle([gated(), reservation(deleted=True)], SETTINGS, NOW)

    assert (found.open, found.missing, found.end, found.waits) == ([], [], [], {"half": WAIT})


def test_a_run_whose_gpu_could_not_be_reserved_keeps_the_reason_of_its_end():
    starting = JobReport("half", "token", ReportState.STARTING)
    refused = replace(starting, state=ReportState.FAILED, reason="The GPU could not be reserved.")

    assert gpu_shares.explain(starting, {"half": WAIT}).reason == WAIT
    assert gpu_shares.explain(refused, {"half": WAIT}) == refused
    assert gpu_shares.explain(starting, {"other": WAIT}) == starting


@pytest.mark.parametrize("present", [[], [reservation(phase="Failed")], [reservation("GPU-b")]])
def test_pods_that_run_on_a_device_that_is_reserved_no_more_are_evicted(present):
    ((pod, verdict),) = settle([opened(), *present], SETTINGS, NOW).end

    assert (pod["metadata"]["name"], verdict.cause) == (opened()["metadata"]["name"], EndCause.EVICTED)
    assert verdict.reason == "The pod that reserved the GPU it shares has ended, so the GPU may be given to others."


def test_nothing_is_judged_on_a_node_that_does_not_answer():
    away = opened()
    away["status"]["conditions"] = [{"type": "Ready", "status": "False"}]

    assert settle([away], SETTINGS, NOW).end == []


def test_pods_whose_device_cannot_be_reserved_end_with_the_reason():
    since = (NOW - timedelta(minutes=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    full = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
        "lastTransitionTime": since,
    }
    foreign = settle([gated(), reservation("", phase="Pending", conditions=[full])], SETTINGS, NOW)
    broken = settle(
        [gated(), reservation("", phase="Failed", message="Its GPU cannot be identified: no NVML")], SETTINGS, NOW
    )

    ((_, unscheduled),), ((_, untold),) = foreign.end, broken.end
    assert (unscheduled.cause, unscheduled.reason) == (
        EndCause.UNSCHEDULABLE,
        f"The GPU that it shares could not be reserved. The cluster does not place its pod: {full['message']}",
    )
    assert (untold.cause, untold.reason) == (
        EndCause.NOT_STARTED,
        "The GPU that it shares could not be reserved. Its GPU cannot be identified: no NVML",
    )
    assert len(broken.unused) == 1


@pytest.mark.parametrize(
    ("value", "named"),
    [("GPU-8a7b", ["GPU-8a7b"]), ("3", ["3"]), ("all", []), ("void", []), ("/var/run/nvidia-container-devices", [])],
)
def test_a_device_plugin_names_devices_by_uuid_or_number(value, named):
    assert devices.read_devices({"NVIDIA_VISIBLE_DEVICES": value}) == named
