"""Which objects a launch becomes."""

import base64
import json
import re
from dataclasses import replace

import pytest

from compute.adapters.kubernetes import manifests
from compute.adapters.kubernetes.manifests import (
    PodSettings,
    build_checkpoint_claim,
    build_gang,
    build_pod,
    build_run,
    build_secret,
    build_service,
    check_launch,
    checkpoint_claim,
    object_name,
)
from compute.adapters.kubernetes.nodes import requests_of
from compute.engine.job_spec import HostFolder, Mount, NfsExport, Tree, Volume
from compute.engine.placing import Launcher, Placing, PodOptions
from compute.engine.ports import CheckpointFolder, GpuShare, Replica
from compute.errors import StartRefused
from tests.contracts.compute_driver import make_launch

SETTINGS = PodSettings(
    namespace="jobs",
    resource="res_1",
    platform_url="https://nearline.example",
    agent_image="nearline/agent:1",
)
TREE = Tree("ds_1", "root")


def launch(name="train", command="true", **spec):
    return make_launch(name, command, **({"image": "lab/train:1"} | spec))


def container(pod, name):
    return next(item for item in [*pod["spec"]["initContainers"], *pod["spec"]["containers"]] if item["name"] == name)


def environment(pod, name="main"):
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in container(pod, name)["env"]}


def mounts(pod, name="main"):
    return {item["mountPath"]: item for item in container(pod, name)["volumeMounts"]}


def test_the_same_launch_makes_the_same_objects():
    assert build_pod(launch(), SETTINGS) == build_pod(launch(), SETTINGS)


def test_names_are_readable_unique_and_fit_the_cluster():
    names = {
        object_name(replace(SETTINGS, **change), name)
        for change in ({}, {"resource": "res_2"})
        for name in ("train", "train~2", "Train", "x" * 200, "__")
    }

    assert len(names) == 10
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name) for name in names)
    assert object_name(SETTINGS, "digits.train~2").startswith("nl-digits-train-2-")


def test_a_pod_says_whose_it_is_and_stays_until_its_end_was_recorded():
    meta = build_pod(launch(), SETTINGS)["metadata"]

    assert meta["labels"] == {
        "app.kubernetes.io/managed-by": "nearline",
        "nearline.dev/resource": "res_1",
        "nearline.dev/job": "job_train",
    }
    assert (meta["annotations"]["nearline.dev/name"], meta["annotations"]["nearline.dev/token"]) == (
        "train",
        "token-of-train",
    )
    assert meta["finalizers"] == ["nearline.dev/end-not-recorded"]


def test_a_pod_is_pinned_to_the_placed_node_and_never_started_again_by_the_cluster():
    spec = build_pod(launch(), SETTINGS)["spec"]

    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    assert spec["restartPolicy"] == "Never"


def test_a_pod_fits_the_restricted_security_level():
    pod = build_pod(launch(code=Mount("code", TREE)), SETTINGS)
    spec = pod["spec"]

    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for name in ("bring", "keep", "main"):
        context = container(pod, name)["securityContext"]
        assert (context["allowPrivilegeEscalation"], context["capabilities"]) == (False, {"drop": ["ALL"]})
    kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
    assert kinds == {"emptyDir", "secret"}


KEEPING = replace(SETTINGS, storage_class="nas", checkpoint_bytes=2**31 + 1)


def keeps(tree: Tree | None = None):
    return replace(launch(), checkpoint=CheckpointFolder("ckpt_1", tree))


def test_a_checkpoint_folder_is_a_claim_of_whole_gib_that_pods_of_any_node_can_mount():
    claim = build_checkpoint_claim(KEEPING, "ckpt_1")

    assert claim["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "nearline",
        "nearline.dev/resource": "res_1",
        "nearline.dev/checkpoint": "ckpt_1",
    }
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "nas",
        "resources": {"requests": {"storage": "3Gi"}},
    }


def test_a_command_sees_the_files_of_the_claim_alone_and_another_container_prepares_them():
    pod = build_pod(keeps(TREE), KEEPING)

    (claim,) = (volume for volume in pod["spec"]["volumes"] if volume["name"] == "checkpoint")
    assert claim["persistentVolumeClaim"] == {"claimName": checkpoint_claim(KEEPING, "ckpt_1")}
    assert pod["metadata"]["labels"]["nearline.dev/checkpoint"] == "ckpt_1"
    assert environment(pod)["NEARLINE_CHECKPOINT_DIR"] == "/checkpoint"
    assert mounts(pod)["/checkpoint"] == {"name": "checkpoint", "mountPath": "/checkpoint", "subPath": "files"}
    assert mounts(pod, "resume") == {"/checkpoint": {"name": "checkpoint", "mountPath": "/checkpoint"}}
    task = {"folder": "/checkpoint", "root": "root", "is_first": True}
    assert json.loads(container(pod, "resume")["command"][-1]) == task


def test_the_other_replicas_of_a_gang_wait_for_the_first_one_to_prepare_the_folder():
    pods = build_gang(replace(keeps(), peers=(Replica("node-2"),)), KEEPING)

    tasks = [json.loads(container(pod, "resume")["command"][-1]) for pod in pods]
    assert [task["is_first"] for task in tasks] == [True, False]


def test_a_job_that_keeps_checkpoints_is_refused_once_its_cluster_has_no_storage_class():
    with pytest.raises(StartRefused, match="this cluster has no storage class any more"):
        check_launch(keeps(), SETTINGS)


def test_the_users_container_has_the_users_image_command_and_shape():
    main = container(build_pod(launch(command=["python", "train.py"]), SETTINGS), "main")

    assert (main["image"], main["command"], main["workingDir"]) == ("lab/train:1", ["python", "train.py"], "/work")
    assert main["resources"]["limits"] == {"memory": str(2**30)}


@pytest.mark.parametrize(("cpu_millicores", "memory_bytes"), [(1000, 2**30), (64_000, 2**39), (500, 2**26)])
def test_a_pod_asks_its_node_for_what_was_placed_and_no_more(cpu_millicores, memory_bytes):
    shape = replace(launch(), cpu_millicores=cpu_millicores, memory_bytes=memory_bytes)

    held = requests_of(build_pod(shape, SETTINGS))

    assert (held["cpu"] * 1000, held["memory"]) == (cpu_millicores, memory_bytes)


def test_what_a_shell_would_replace_is_not_replaced_by_the_cluster():
    pod = build_pod(launch(command="echo $$ $(HOME)", env={"WORDS": "$(HOME)"}), SETTINGS)

    assert container(pod, "main")["command"] == ["/bin/sh", "-c", "echo $$$$ $$(HOME)"]
    assert environment(pod)["WORDS"] == "$$(HOME)"


def test_a_job_finds_what_the_documentation_says():
    variables = environment(build_pod(launch(), SETTINGS))

    found = {key: variables[key] for key in ("NEARLINE_OUTPUT", "NEARLINE_DATA", "NEARLINE_INPUT", "HOME")}
    assert found == {
        "NEARLINE_OUTPUT": "/output",
        "NEARLINE_DATA": "/data",
        "NEARLINE_INPUT": "/input",
        "HOME": "/work",
    }
    assert variables["NEARLINE_PARAMETERS"] == "/nearline/parameters.json"
    assert "PATH" not in variables


def test_whole_gpus_are_asked_for_by_the_name_that_the_cluster_gives_them():
    with_gpus = replace(launch(), gpus=(GpuShare(3, 1000), GpuShare(5, 1000)))
    pod = build_pod(with_gpus, replace(SETTINGS, gpu_resource="amd.com/gpu", runtime_class="rocm"))

    resources = container(pod, "main")["resources"]
    assert (resources["limits"]["amd.com/gpu"], resources["requests"]["amd.com/gpu"]) == ("2", "2")
    assert pod["spec"]["runtimeClassName"] == "rocm"
    assert "CUDA_VISIBLE_DEVICES" not in environment(pod)


def test_a_job_without_a_gpu_sees_none_whatever_its_image_asks_for():
    variables = environment(build_pod(launch(env={"NVIDIA_VISIBLE_DEVICES": "all"}), SETTINGS))

    assert (variables["NVIDIA_VISIBLE_DEVICES"], variables["CUDA_VISIBLE_DEVICES"]) == ("void", "")


def test_secrets_are_in_the_secret_and_nowhere_in_the_pod():
    secretive = replace(launch(), secrets={"KEY": "hunter22"})

    pod, secret = build_pod(secretive, SETTINGS), build_secret(secretive, SETTINGS, "attempt")

    assert "hunter22" not in repr(pod)
    assert environment(pod)["KEY"] == {"secretKeyRef": {"name": secret["metadata"]["name"], "key": "secret-0"}}
    assert secret["stringData"] == {"secret-0": "hunter22", "attempt-token": "attempt", "parameters.json": "{}"}


def test_the_values_to_mask_are_read_from_the_secret():
    data = {"secret-0": base64.b64encode(b"hunter22").decode(), "attempt-token": base64.b64encode(b"t").decode()}

    assert manifests.read_secret_values({"data": data}) == ["hunter22"]


def test_only_the_agents_hold_the_token_of_the_attempt():
    pod = build_pod(launch(code=Mount("code", TREE)), SETTINGS)

    holders = [
        item["name"]
        for item in [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]
        if "attempt-token" in repr(item)
    ]
    assert holders == ["bring", "keep"]
    assert mounts(pod)["/nearline"]["readOnly"] is True
    (parameters,) = (volume["secret"] for volume in pod["spec"]["volumes"] if volume["name"] == "parameters")
    assert parameters["items"] == [{"key": "parameters.json", "path": "parameters.json"}]


def test_what_comes_from_the_store_is_brought_before_the_command_starts():
    spec = {"code": Mount("code", TREE), "inputs": [Mount("prepare/0", TREE)], "data": [Mount("digits", TREE)]}
    pod = build_pod(launch(**spec), SETTINGS)

    assert container(pod, "bring")["command"] == [
        "python3",
        "-m",
        "nearline.pod",
        "bring",
        json.dumps(
            {
                "code/code": "/scratch/work",
                "data/digits": "/scratch/trees/data/digits",
                "input/prepare/0": "/scratch/trees/input/prepare/0",
            }
        ),
    ]
    expected = {"mountPath": "/data/digits", "readOnly": True, "name": "scratch", "subPath": "trees/data/digits"}
    assert mounts(pod)["/data/digits"] == expected
    assert mounts(pod)["/input/prepare/0"]["subPath"] == "trees/input/prepare/0"


def test_a_pod_that_reads_nothing_from_the_store_waits_for_no_agent():
    names = [item["name"] for item in build_pod(launch(), SETTINGS)["spec"]["initContainers"]]

    assert names == ["keep"]


def test_claims_and_exports_are_mounted_read_only_twice():
    data = [Mount("digits", Volume("claim-1", "commit")), Mount("maps", NfsExport("filer", "/maps", "cc_1/files"))]
    pod = build_pod(launch(data=data), SETTINGS)

    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    digits, maps = mounts(pod)["/data/digits"], mounts(pod)["/data/maps"]
    assert (digits["readOnly"], digits["subPath"]) == (True, "commit")
    assert (maps["readOnly"], maps["subPath"]) == (True, "cc_1/files")
    assert volumes[digits["name"]]["persistentVolumeClaim"] == {"claimName": "claim-1", "readOnly": True}
    assert volumes[maps["name"]]["nfs"] == {"server": "filer", "path": "/maps", "readOnly": True}


def test_what_an_admin_sets_for_a_cluster_is_in_every_pod():
    toleration = {"key": "gpu", "operator": "Exists"}
    settings = replace(
        SETTINGS,
        priority_class="batch",
        image_pull_secrets=("registry",),
        node_selector={"pool": "a"},
        tolerations=(toleration,),
        grace_s=1200,
    )

    spec = build_pod(launch(), settings)["spec"]

    assert (spec["priorityClassName"], spec["imagePullSecrets"]) == ("batch", [{"name": "registry"}])
    assert (spec["nodeSelector"], spec["tolerations"]) == ({"pool": "a"}, [toleration])
    assert spec["terminationGracePeriodSeconds"] == 1200


def test_a_pod_asks_for_its_slices_by_their_profile():
    pod = build_pod(replace(launch(), slices=("1g.10gb",)), replace(SETTINGS, runtime_class="nvidia"))

    (main,) = pod["spec"]["containers"]
    assert main["resources"]["limits"] == {"memory": str(launch().memory_bytes), "nvidia.com/mig-1g.10gb": "1"}
    assert main["resources"]["requests"]["nvidia.com/mig-1g.10gb"] == "1"
    assert pod["spec"]["runtimeClassName"] == "nvidia"
    assert not {"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"} & {each["name"] for each in main["env"]}


def test_a_template_adds_to_that_and_its_priority_class_takes_the_place_of_the_clusters():
    options = PodOptions({"zone": "z1"}, ("gpu=only:NoSchedule", "spot"), "urgent", ("registry", "mirror"))
    settings = replace(
        SETTINGS,
        priority_class="batch",
        image_pull_secrets=("registry",),
        node_selector={"pool": "a"},
        tolerations=({"key": "old", "operator": "Exists"},),
    )

    spec = build_pod(launch(pod=options), settings)["spec"]

    assert spec["priorityClassName"] == "urgent"
    assert spec["imagePullSecrets"] == [{"name": "registry"}, {"name": "mirror"}]
    assert spec["nodeSelector"] == {"pool": "a", "zone": "z1"}
    assert spec["tolerations"] == [
        {"key": "old", "operator": "Exists"},
        {"key": "gpu", "value": "only", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
    ]


def test_a_node_that_is_drained_lets_a_job_have_its_grace_period():
    pod = build_pod(launch(grace_period_s=900), SETTINGS)

    assert pod["spec"]["terminationGracePeriodSeconds"] == 900
    assert pod["metadata"]["annotations"]["nearline.dev/grace-period"] == "900"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (launch(image=None), "names no image"),
        (launch(data=[Mount("digits", HostFolder("/digits"))]), "cannot be mounted"),
        (launch(working_directory="/srv"), "the working directory /srv"),
    ],
)
def test_what_can_never_be_a_pod_is_refused(wrong, words):
    with pytest.raises(StartRefused, match=words):
        check_launch(wrong, SETTINGS)


def test_a_job_without_an_image_gets_the_default_of_the_cluster():
    settings = replace(SETTINGS, default_image="lab/base:1")

    check_launch(launch(image=None), settings)

    assert container(build_pod(launch(image=None), settings), "main")["image"] == "lab/base:1"


def gang(count=3, **more):
    peers = tuple(Replica(f"node-{rank + 1}") for rank in range(1, count))
    return replace(launch("ring"), peers=peers, **more)


def test_a_gang_is_a_pod_for_each_replica_on_its_node_under_a_host_name():
    pods = build_gang(gang(), SETTINGS)
    name = object_name(SETTINGS, "ring")

    assert [pod["metadata"]["name"] for pod in pods] == [name, f"{name}-1", f"{name}-2"]
    assert [pod["spec"]["affinity"] for pod in pods] == [manifests._pin_to(f"node-{number}") for number in (1, 2, 3)]
    assert [(pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in pods] == [
        (f"replica-{rank}", name) for rank in range(3)
    ]
    assert [environment(pod)["RANK"] for pod in pods] == ["0", "1", "2"]
    assert {environment(pod)["MASTER_ADDR"] for pod in pods} == {f"replica-0.{name}"}
    assert [environment(pod)["NEARLINE_NODE"] for pod in pods] == ["node-1", "node-2", "node-3"]


def test_only_replica_0_sends_the_output_and_all_wait_for_each_other():
    duties = [[each["name"] for each in pod["spec"]["initContainers"]] for pod in build_gang(gang(), SETTINGS)]

    assert duties == [["meet", "keep"], ["meet"], ["meet"]]


def test_the_secret_of_a_run_owns_its_pod():
    (pod,) = build_run(launch(), SETTINGS, "uid-1")

    name = object_name(SETTINGS, launch().name)
    assert pod["metadata"].pop("ownerReferences") == [
        {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": "uid-1"}
    ]
    assert pod == build_pod(launch(), SETTINGS)


def test_the_secret_of_a_gang_has_its_hostfile_and_owns_all_else():
    secret = build_secret(gang(), SETTINGS, "token")
    service, pods = build_service(gang(), SETTINGS, "uid-1"), build_run(gang(), SETTINGS, "uid-1")
    name = object_name(SETTINGS, "ring")

    assert secret["stringData"]["hostfile"].splitlines() == [f"replica-{rank}.{name} slots=1" for rank in range(3)]
    owner = [{"apiVersion": "v1", "kind": "Secret", "name": name, "uid": "uid-1"}]
    assert [item["metadata"].get("ownerReferences") for item in (service, *pods)] == [owner] * 4
    assert service["spec"]["selector"] == {"nearline.dev/gang": name}
    assert all(pod["metadata"]["labels"]["nearline.dev/gang"] == name for pod in pods)


def with_launcher(count=3, **more):
    gpus = (GpuShare(0, 1000), GpuShare(1, 1000))
    peers = tuple(Replica(f"node-{rank + 1}", gpus) for rank in range(1, count))
    given = launch(
        "ring",
        placing=Placing(launcher=Launcher(cpu_millicores=300, memory_bytes=2**28, worker_port=2222)),
        pod=PodOptions(node_selector={"gpu": "a100"}, tolerations=("gpu",)),
        **more,
    )
    return replace(given, gpus=(), peers=peers)


def test_a_launcher_is_a_small_pod_without_gpus_on_any_node_that_runs_the_command():
    launcher, *workers = build_gang(with_launcher(), SETTINGS)

    mains = [container(pod, "main") for pod in (launcher, *workers)]
    assert [main["resources"]["limits"] for main in mains] == [
        {"memory": str(2**28)},
        *[{"memory": str(launch().memory_bytes), "nvidia.com/gpu": "2"}] * 2,
    ]
    assert mains[0]["resources"]["requests"]["cpu"] == "290m"
    assert mains[0]["command"] != mains[1]["command"] == mains[2]["command"]
    assert mains[1]["command"] == ["/bin/sh", "-c", "exec /usr/sbin/sshd -D"]
    assert "nodeSelector" not in launcher["spec"]
    assert {pod["spec"]["nodeSelector"]["gpu"] for pod in workers} == {"a100"}
    assert all(pod["spec"]["tolerations"] for pod in (launcher, *workers))
    assert environment(launcher)["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_only_the_workers_are_in_the_host_file_and_the_launcher_waits_until_they_listen():
    gang, name = with_launcher(), object_name(SETTINGS, "ring")
    launcher, *workers = build_gang(gang, SETTINGS)

    hosts = [f"worker-{rank}.{name}" for rank in range(2)]
    assert build_secret(gang, SETTINGS, "token")["stringData"]["hostfile"] == "".join(
        f"{host} slots=2\n" for host in hosts
    )
    assert [pod["spec"]["hostname"] for pod in (launcher, *workers)] == ["launcher", "worker-0", "worker-1"]
    assert [json.loads(container(pod, "meet")["command"][-1]) for pod in (launcher, *workers)] == [
        [f"{host}:2222" for host in hosts],
        *[[f"launcher.{name}", *hosts]] * 2,
    ]
    told = environment(launcher)
    assert (told["OMPI_MCA_orte_default_hostfile"], told["WORLD_SIZE"], "RANK" in told) == (
        "/nearline/hostfile", "2", False
    )  # fmt: skip
    assert [environment(pod)["RANK"] for pod in workers] == ["0", "1"]
    duties = [[each["name"] for each in pod["spec"]["initContainers"]] for pod in (launcher, *workers)]
    assert duties == [["meet", "keep"], ["meet"], ["meet"]]


def test_parameters_are_on_the_command_line_of_the_launcher_alone():
    launcher, worker, _ = build_gang(
        with_launcher(command="mpirun ./train", append_parameters=True, parameters={"lr": 0.1}), SETTINGS
    )

    commands = [container(pod, "main")["command"][-1] for pod in (launcher, worker)]
    assert commands == ["mpirun ./train --lr 0.1", "exec /usr/sbin/sshd -D"]


def test_pods_of_an_elastic_gang_are_told_by_an_annotation_which_replicas_there_are():
    elastic = gang(2, min_replicas=1, max_replicas=3)
    pods, name = build_gang(elastic, SETTINGS), object_name(SETTINGS, "ring")

    assert "hostfile" not in build_secret(elastic, SETTINGS, "token")["stringData"]
    told = {key: pods[1]["metadata"]["annotations"][f"nearline.dev/{key}"] for key in ("most-replicas", "hosts")}
    assert told == {"most-replicas": "3", "hosts": f"replica-0.{name} slots=1\nreplica-1.{name} slots=1\n"}
    parameters = next(each for each in pods[1]["spec"]["volumes"] if each["name"] == "parameters")
    assert parameters["projected"]["sources"] == [
        {"secret": {"name": name, "items": [{"key": "parameters.json", "path": "parameters.json"}]}},
        {"downwardAPI": {"items": [
            {"path": "hostfile", "fieldRef": {"fieldPath": "metadata.annotations['nearline.dev/hosts']"}}
        ]}},
    ]  # fmt: skip
    meet = container(pods[1], "meet")["command"]
    assert (meet[-1], environment(pods[1])["PET_NNODES"]) == (f'["replica-0.{name}"]', "1:3")
    assert manifests.retell(pods[0], 3) == {
        "nearline.dev/replicas": "3",
        "nearline.dev/hosts": "".join(f"replica-{rank}.{name} slots=1\n" for rank in range(3)),
    }


def test_a_pod_of_a_gang_fits_the_names_of_the_cluster():
    long = replace(gang(256), spec=replace(gang().spec, name="x" * 200))
    names = {pod["metadata"]["name"] for pod in build_gang(long, SETTINGS)}

    assert (len(names), max(map(len, names)) <= 63) == (256, True)


def test_a_claim_that_an_admin_offers_is_mounted_where_the_job_asks():
    settings = replace(SETTINGS, job_claims=("scans:ro", "scratch"))
    pod = build_pod(launch(volumes=["scans:/mnt/scans:ro", "scratch:/mnt/scratch"]), settings)

    at = {path: mounts(pod)[path] for path in ("/mnt/scans", "/mnt/scratch")}
    claims = {each["name"]: each.get("persistentVolumeClaim", {}) for each in pod["spec"]["volumes"]}
    assert {path: (claims[each["name"]]["claimName"], each["readOnly"]) for path, each in at.items()} == {
        "/mnt/scans": ("scans", True),
        "/mnt/scratch": ("scratch", False),
    }
    # What is brought into the pod, and what sends its output, has no part in them.
    assert "/mnt/scratch" not in mounts(pod, "keep")


@pytest.mark.parametrize(
    ("volume", "words"),
    [("scans:/mnt/scans", "only read scans"), ("nl-pool-1:/mnt/a", "nl-pool-1 is not offered to jobs on this cluster")],
)
def test_a_claim_that_is_not_offered_so_is_refused(volume, words):
    with pytest.raises(StartRefused, match=words):
        check_launch(launch(volumes=[volume]), replace(SETTINGS, job_claims=("scans:ro",)))
