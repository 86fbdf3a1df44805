"""What an account may do in a cluster, asked of the cluster itself, by name."""

from collections.abc import Iterable, Mapping, Sequence

from core.kubernetes.gateway import Gateway, Refusal

_RBAC = "deploy/rbac/nearline.yaml holds all that is needed."
Rule = tuple[str, str, Sequence[str]]
"""The group, the resource (`pods/log`) and verbs."""


def find_missing(gateway: Gateway, rules: Iterable[Rule], namespace: str = "") -> str:
    """Say what the account may not do in a namespace, an empty one being the whole cluster; empty: it may all.

    Raises ClusterUnreachable.
    """
    deeds = []
    for group, resource, verbs in rules:
        if missing := [verb for verb in verbs if not _is_allowed(gateway, group, resource, verb, namespace)]:
            deeds.append(f"{'/'.join(missing)} {resource}")
    where = f"in the namespace {namespace}" if namespace else "in the whole cluster"
    return f"The account may not {', '.join(deeds)} {where}. {_RBAC}" if deeds else ""


def _is_allowed(gateway: Gateway, group: str, resource: str, verb: str, namespace: str) -> bool:
    name, _, part = resource.partition("/")
    attributes = {"group": group, "resource": name, "subresource": part, "verb": verb, "namespace": namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    try:
        answer = gateway.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review) or {}
    except Refusal:
        return False
    status = answer.get("status")
    return isinstance(status, Mapping) and status.get("allowed") is True
