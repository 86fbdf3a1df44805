"""What a cluster has for our scheduler."""

from dataclasses import replace
from decimal import Decimal

import pytest

from compute.adapters.kubernetes import fields
from compute.adapters.kubernetes.nodes import parse_quantity, read_nodes, requests_of
from compute.engine.node_faults import MOST_GPUS
from compute.engine.ports import ForeignUse, GpuFacts, NodeFacts
from core.bounds import MAX_QUANTITY

GIB = 2**30


def make_node(name="a", *, gpus="2", labels=None, taints=(), ready="True", **spec):
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": {"taints": list(taints), **spec},
        "status": {
            "allocatable": {"cpu": "3900m", "memory": "8Gi", "nvidia.com/gpu": gpus},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def make_pod(node="a", phase="Running", owner="", init=(), **requests):
    return {
        "metadata": {"labels": {"owner": owner}},
        "spec": {
            "nodeName": node,
            "containers": [{"resources": {"requests": requests}}],
            "initContainers": list(init),
        },
        "status": {"phase": phase},
    }


def read(nodes, pods=(), **options):
    def is_ours(pod):
        return pod["metadata"]["labels"]["owner"] == "us"

    nodes = [fields.trim(node, fields.NODE) for node in nodes]
    pods = [fields.trim(pod, fields.FOREIGN) for pod in pods]
    return read_nodes(nodes, pods, gpu_resource="nvidia.com/gpu", is_ours=is_ours, **options)


def test_a_node_gives_what_the_cluster_lets_pods_have():
    labels = {"nvidia.com/gpu.product": "Tesla-V100", "nvidia.com/gpu.memory": "32768", "pool": "train"}

    (node,) = read([make_node(labels=labels)])

    assert node == NodeFacts(
        name="a",
        cpu_millicores=3900,
        memory_bytes=8 * GIB,
        gpus=(
            GpuFacts(0, "uid-a-0", "Tesla-V100", 32 * GIB),
            GpuFacts(1, "uid-a-1", "Tesla-V100", 32 * GIB),
        ),
        labels=labels,
    )


def test_slices_that_were_cut_beforehand_are_counted_by_profile_less_those_of_others():
    node = make_node()
    node["status"]["allocatable"] |= {
        "nvidia.com/mig-1g.10gb": "7",
        "nvidia.com/mig-3g.40gb": "0",
        "nvidia.com/mig-2g.20gb": "3",
        "nvidia.com/mig-2g.20gb.shared": "4",
    }

    (found,) = read([node], [make_pod(**{"nvidia.com/mig-1g.10gb": "2"})])
    (as_gpus,) = read_nodes([node], [], gpu_resource="nvidia.com/mig-1g.10gb", is_ours=bool)

    assert (found.mig_strategy, found.mig, len(found.gpus)) == ("mixed", {"1g.10gb": 5, "2g.20gb": 3}, 2)
    assert (as_gpus.mig_strategy, as_gpus.mig, len(as_gpus.gpus)) == ("off", {}, 7)


def test_a_node_takes_so_many_pods_less_those_of_others():
    node = make_node()
    node["status"]["allocatable"]["pods"] = "3"
    pods = [make_pod(cpu="1m"), make_pod(owner="us"), make_pod(phase="Succeeded"), make_pod(node="b")]

    assert read([node], pods)[0].max_pods == 2
    assert read([node], [make_pod()] * 5)[0].max_pods == 0
    assert read([make_node()])[0].max_pods is None


def test_what_pods_of_others_ask_for_is_used():
    foreign = make_pod(cpu="1", memory="1Gi", **{"nvidia.com/gpu": "1"})

    (node,) = read([make_node()], [foreign])

    assert (node.cpu_millicores, node.memory_bytes, [gpu.index for gpu in node.gpus]) == (2900, 7 * GIB, [0])


@pytest.mark.parametrize(
    "pod", [make_pod(owner="us", cpu="1"), make_pod(phase="Succeeded", cpu="1"), make_pod("b", cpu="1")]
)
def test_our_own_pods_ended_pods_and_those_of_other_nodes_are_not(pod):
    assert read([make_node()], [pod])[0].cpu_millicores == 3900


def test_a_pod_holds_its_sidecars_and_at_least_its_largest_init_container():
    sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    init = {"resources": {"requests": {"memory": "2Gi", "cpu": "10m"}}}

    held = requests_of(make_pod(cpu="1", memory="1Gi", init=[init, sidecar]))

    assert held == {"cpu": Decimal("1.1"), "memory": 2 * GIB}


def test_what_a_pod_asks_for_as_a_whole_counts_in_place_of_what_its_containers_do():
    pod = make_pod(cpu="1", memory="1Gi")
    pod["spec"]["resources"] = {"requests": {"cpu": "3"}}

    assert requests_of(fields.trim(pod, fields.FOREIGN)) == {"cpu": 3, "memory": GIB}


NO_GPU = {"key": "gpu", "value": "only", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("node", "node_selector", "is_ready"),
    [
        (make_node(), {}, True),
        (make_node(ready="False"), {}, False),
        (make_node(ready="Unknown"), {}, False),
        (make_node(unschedulable=True), {}, False),
        (make_node(labels={"pool": "train"}), {"pool": "train"}, True),
        (make_node(labels={"pool": "train"}), {"pool": "train", "zone": "a"}, False),
    ],
)
def test_a_node_is_ready_when_it_is_up_and_all_our_pods_select_it(node, node_selector, is_ready):
    assert read([node], node_selector=node_selector)[0].is_ready is is_ready


@pytest.mark.parametrize(
    ("taint", "tolerations", "taints"),
    [
        (NO_GPU, (), (("gpu", "only", "NoSchedule"),)),
        (NO_GPU, [{"key": "gpu", "value": "only"}], ()),
        (NO_GPU, [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}], ()),
        (NO_GPU, [{"operator": "Exists"}], ()),
        (NO_GPU, [{"key": "gpu", "value": "other"}], (("gpu", "only", "NoSchedule"),)),
        (NO_GPU, [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}], (("gpu", "only", "NoSchedule"),)),
        ({"key": "x", "effect": "PreferNoSchedule"}, (), ()),
    ],
)
def test_a_node_has_the_taints_that_not_all_our_pods_tolerate(taint, tolerations, taints):
    assert read([make_node(taints=[taint])], tolerations=tolerations)[0].taints == taints


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500m", "0.5"),
        ("2", "2"),
        ("16Gi", 16 * GIB),
        ("1e3", "1000"),
        ("1M", "1000000"),
        ("1k", "1000"),
        ("x", "0"),
        ("", "0"),
    ],
)
def test_quantities_are_read_as_kubernetes_writes_them(text, number):
    assert parse_quantity(text) == Decimal(number)


def test_slices_of_gpus_are_gpus_with_the_model_and_the_memory_of_the_slice():
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "nvidia.com/gpu.memory": "81920",
        "nvidia.com/mig-1g.10gb.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
        "nvidia.com/mig-1g.10gb.memory": "9728",
    }
    node = make_node(labels=labels)
    node["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] = "7"

    [facts] = read_nodes([node], [], gpu_resource="nvidia.com/mig-1g.10gb", is_ours=lambda _: False)

    assert len(facts.gpus) == 7
    assert (facts.gpus[0].model, facts.gpus[0].memory_bytes) == ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", 9728 * 2**20)


def test_what_others_hold_of_a_node_is_told_with_who_holds_its_gpus():
    pod = make_pod(owner="them", cpu="500m", memory="1Gi", **{"nvidia.com/gpu": "1"})
    pod["metadata"] |= {"namespace": "kube-system", "name": "triton"}

    [facts] = read([make_node()], [pod])

    assert facts.foreign == ForeignUse(500, GIB, 1, ("kube-system/triton",))


def test_amounts_that_no_machine_has_are_bounded_so_that_one_node_slows_nobody():
    huge = str(2**63 - 1)
    endless = make_pod(**{"cpu": huge, "memory": huge, "nvidia.com/gpu": "Infinity"})

    (node,) = read([make_node(gpus="1000000")], [endless, endless])

    assert (node.cpu_millicores, node.memory_bytes) == (0, 0)
    assert node.foreign == replace(node.foreign, cpu_millicores=MAX_QUANTITY, memory_bytes=MAX_QUANTITY, gpus=0)
    assert len(node.gpus) == MOST_GPUS + 1
