"""The account of deploy/rbac, for a namespace of a test."""

from pathlib import Path

from ruamel.yaml import YAML

from tests.kubernetes.control_plane import ControlPlane

FOLDER = Path(__file__).resolve().parents[2] / "deploy/rbac"
RBAC = FOLDER / "nearline.yaml"


def manifests_for(namespace: str) -> list[dict]:
    """Return the objects of deploy/rbac for another namespace; those of the whole cluster are named after it too."""
    objects = []
    for item in YAML(typ="safe").load_all(RBAC.read_text()):
        meta = item["metadata"]
        if "namespace" in meta:
            meta["namespace"] = namespace
        else:
            meta["name"] = namespace
            if "roleRef" in item:
                item["roleRef"]["name"] = namespace
        for subject in item.get("subjects", []):
            subject["namespace"] = namespace
        objects.append(item)
    return objects


def grant(control_plane: ControlPlane, objects: list[dict]) -> None:
    """Apply the objects of an account, and wait until the API server goes by its roles, of which it learns later."""
    control_plane.kubectl("apply", "-f", "-", manifest={"apiVersion": "v1", "kind": "List", "items": objects})
    (account,) = (item["metadata"] for item in objects if item["kind"] == "ServiceAccount")
    user = f"system:serviceaccount:{account['namespace']}:{account['name']}"

    def is_known(role: dict) -> bool:
        rule, namespace = role["rules"][0], role["metadata"].get("namespace", "")
        deed = {"group": rule["apiGroups"][0], "resource": rule["resources"][0], "verb": rule["verbs"][0]}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": {**deed, "namespace": namespace}},
        }
        answer = control_plane.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return answer["status"]["allowed"]

    control_plane.programs.wait_until(lambda: all(is_known(item) for item in objects if "rules" in item))


def gpu_metrics_for(namespace: str, exporter_namespace: str) -> list[dict]:
    """Return the objects that let the account of a namespace read the metrics of GPUs in another one."""
    text = (FOLDER / "gpu-metrics.yaml").read_text().replace("namespace: nearline", f"namespace: {namespace}")
    return list(YAML(typ="safe").load_all(text.replace("namespace: gpu-operator", f"namespace: {exporter_namespace}")))
