"""A cluster that is a table of objects, for what is asked of clusters where no pod has to run."""

import json
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager

from core.kubernetes import connections
from core.kubernetes.connections import ClusterConnection
from core.kubernetes.gateway import Listed

STORAGE_CLASS = "fast"


class Cluster:
    """A cluster that keeps objects and runs nothing."""

    def __init__(self) -> None:
        self.objects: dict[str, dict] = {}
        self.made: list[str] = []

    def get(self, path, **_query):
        return self.objects.get(path)

    def create(self, path, body, **_query):
        name = body["metadata"]["name"]
        if f"{path}/{name}" in self.objects:
            return None
        self.objects[f"{path}/{name}"] = {**body, "metadata": {"uid": f"u-{name}", **body["metadata"]}}
        self.made.append(name)
        return self.objects[f"{path}/{name}"]

    def patch(self, path, body, **_query):
        annotations = self.objects[path]["metadata"].setdefault("annotations", {})
        annotations.update(body["metadata"]["annotations"])
        for name in [name for name, value in annotations.items() if value is None]:
            del annotations[name]

    def delete(self, path, **_options):
        return self.objects.pop(path, None) is not None

    def list(self, path, *, labelSelector="", **_query):  # noqa: N803 (the name of the cluster's own parameter)
        key, _, value = labelSelector.partition("=")
        items = [item for where, item in self.objects.items() if posixpath.dirname(where) == path]
        return Listed([item for item in items if not key or item["metadata"].get("labels", {}).get(key) == value], "")

    def job(self, name):
        return self.objects.get(f"/apis/batch/v1/namespaces/jobs/jobs/{name}")

    def misunderstand(self, name):
        """Let the pod of a Job end at once, as its image does not know what it is told to do."""
        self.job(name)["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
        container = {"name": "copy", "image": "nearline/agent:1", "state": {"terminated": {"exitCode": 2}}}
        self.objects[f"/api/v1/namespaces/jobs/pods/{name}-0"] = {
            "metadata": {"name": f"{name}-0", "uid": "u-0", "labels": {"batch.kubernetes.io/job-name": name}},
            "status": {"phase": "Failed", "containerStatuses": [container]},
        }

    def end(self, name, *, messages, kind="Complete", phase="Succeeded"):
        """Let the pods of a Job end with these messages."""
        self.job(name)["status"] = {"conditions": [{"type": kind, "status": "True"}]}
        for number, message in enumerate(messages):
            state = {"terminated": {"finishedAt": f"2026-11-21T12:00:0{number}Z", "message": json.dumps(message)}}
            self.objects[f"/api/v1/namespaces/jobs/pods/{name}-{number}"] = {
                "metadata": {"name": f"{name}-{number}", "labels": {"batch.kubernetes.io/job-name": name}},
                "status": {"phase": phase, "containerStatuses": [{"name": "copy", "state": state}]},
            }

    def bind(self, claim):
        """Give a claim its volume."""
        self.objects[f"/api/v1/namespaces/jobs/persistentvolumeclaims/{claim}"]["status"] = {"phase": "Bound"}


@contextmanager
def lab() -> Iterator[Cluster]:
    """Attach such a cluster as `lab`, which has a storage class."""
    cluster = Cluster()
    cluster.create(
        "/apis/storage.k8s.io/v1/storageclasses",
        {"metadata": {"name": STORAGE_CLASS}, "provisioner": "nfs.test"},
    )
    cluster.made.clear()
    connection = ClusterConnection(cluster, "jobs", "https://nearline.test", "nearline/agent:1", "res_lab")
    before = connections.install(lambda _resource: connection)
    try:
        yield cluster
    finally:
        connections.install(before)
