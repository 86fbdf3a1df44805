"""What is kept of the pods and nodes that a cluster tells of: the fields that are read here. Pure."""

import sys
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

_ALL = True
_CONTAINERS = {
    "name": _ALL,
    "image": _ALL,
    "state": {
        "waiting": {"reason": _ALL, "message": _ALL},
        "running": {"startedAt": _ALL},
        "terminated": {
            "exitCode": _ALL,
            "reason": _ALL,
            "message": _ALL,
            "startedAt": _ALL,
            "finishedAt": _ALL,
        },
    },
}
_Fields = Mapping[str, Any]
OURS: _Fields = {
    "metadata": {
        "name": _ALL,
        "uid": _ALL,
        "resourceVersion": _ALL,
        "creationTimestamp": _ALL,
        "deletionTimestamp": _ALL,
        "deletionGracePeriodSeconds": _ALL,
        "labels": _ALL,
        "annotations": _ALL,
    },
    "spec": {
        "nodeName": _ALL,
        "affinity": _ALL,
        "tolerations": _ALL,
        "schedulingGates": _ALL,
        "containers": {"name": _ALL, "resources": {"limits": _ALL}},
    },
    "status": {
        "phase": _ALL,
        "reason": _ALL,
        "message": _ALL,
        "conditions": {
            "type": _ALL,
            "status": _ALL,
            "reason": _ALL,
            "message": _ALL,
            "lastTransitionTime": _ALL,
        },
        "initContainerStatuses": _CONTAINERS,
        "containerStatuses": _CONTAINERS,
    },
}
"""The fields of a pod of this resource."""
FOREIGN: _Fields = {
    "metadata": {"name": _ALL, "namespace": _ALL, "labels": _ALL},
    "spec": {
        "nodeName": _ALL,
        "overhead": _ALL,
        "resources": _ALL,
        "containers": {"name": _ALL, "ports": _ALL, "resources": _ALL},
        "initContainers": {"resources": _ALL, "restartPolicy": _ALL},
    },
    "status": {"phase": _ALL},
}
"""The fields of a pod of others."""
NODE: _Fields = {
    "metadata": {"name": _ALL, "uid": _ALL, "labels": _ALL},
    "spec": {"taints": _ALL, "unschedulable": _ALL},
    "status": {"allocatable": _ALL, "conditions": {"type": _ALL, "status": _ALL}},
}


def trim(item: Json, fields: _Fields) -> Json:
    """Return these fields of an object. Texts that many objects have in common are kept once."""
    trimmed: Json = _trim(item, fields)
    return trimmed


def _trim(value: Any, fields: Any) -> Any:
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, list):
        return [_trim(item, fields) for item in value]
    if not isinstance(value, dict):
        return value
    if fields is _ALL:
        return {sys.intern(key): _trim(item, _ALL) for key, item in value.items()}
    return {key: _trim(value[key], inner) for key, inner in fields.items() if key in value}
