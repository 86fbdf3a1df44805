"""The account of deploy/rbac, for a namespace of a test."""

from pathlib import Path

from ruamel.yaml import YAML

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


def gpu_metrics_for(namespace: str, exporter_namespace: str) -> list[dict]:
    """Return the objects that let the account of a namespace read the metrics of GPUs in another one."""
    text = (FOLDER / "gpu-metrics.yaml").read_text().replace("namespace: nearline", f"namespace: {namespace}")
    return list(YAML(typ="safe").load_all(text.replace("namespace: gpu-operator", f"namespace: {exporter_namespace}")))
