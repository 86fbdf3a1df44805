"""What is checked before a cluster is attached, with the account of deploy/rbac, on a real API server."""

import copy
import secrets
from dataclasses import replace

import pytest

from compute.adapters.kubernetes.checks import find_lacks, find_problems
from compute.adapters.kubernetes.manifests import PodSettings
from core.kubernetes import access, provisioners
from core.kubernetes.errors import KubeconfigRefused
from core.kubernetes.gateway import Gateway
from core.kubernetes.kubeconfig import read_kubeconfig
from tests.kubernetes.api import ANSWER_S
from tests.kubernetes.rbac import grant, manifests_for

CASES = [
    (item["kind"], resource, verb)
    for item in manifests_for("any")
    for rule in item.get("rules", ())
    for resource in rule["resources"]
    for verb in rule["verbs"]
]
"""Whatever the manifest lets the account do."""


def without(objects: list[dict], scope: str, resource: str, verb: str) -> list[dict]:
    objects = copy.deepcopy(objects)
    (role,) = (item for item in objects if item["kind"] == scope)
    rules = []
    for rule in role["rules"]:
        for name in rule["resources"]:
            verbs = [item for item in rule["verbs"] if (name, item) != (resource, verb)]
            rules.append({"apiGroups": rule["apiGroups"], "resources": [name], "verbs": verbs})
    role["rules"] = [rule for rule in rules if rule["verbs"]]
    return objects


class Account:
    """The account of deploy/rbac in a namespace of its own."""

    def __init__(self, control_plane) -> None:
        self._control_plane = control_plane
        self.namespace = control_plane.create_namespace(f"test-{secrets.token_hex(4)}")
        self.objects = manifests_for(self.namespace)
        self.settings = PodSettings(
            namespace=self.namespace, resource="r", platform_url="https://nearline", agent_image="nearline:1"
        )

    def apply(self, objects: list[dict]) -> None:
        grant(self._control_plane, objects)

    @property
    def gateway(self) -> Gateway:
        text = self._control_plane.kubeconfig_of("nearline", namespace=self.namespace)
        return Gateway(read_kubeconfig(text), answer_s=ANSWER_S)

    def problems(self, **changes) -> list[str]:
        return find_problems(self.gateway, replace(self.settings, **changes), with_volumes=True)

    def told(self) -> list[str]:
        """What refuses the cluster, and what is said of the account otherwise."""
        return [*self.problems(), *find_lacks(self.gateway, self.namespace)]


@pytest.fixture
def account(control_plane):
    return Account(control_plane)


def test_with_the_account_of_deploy_rbac_nothing_is_missing(account):
    account.apply(account.objects)

    assert account.told() == []


@pytest.mark.parametrize(("scope", "resource", "verb"), CASES)
def test_without_one_verb_the_check_names_that_verb(account, scope, resource, verb):
    account.apply(without(account.objects, scope, resource, verb))

    where = f"in the namespace {account.namespace}" if scope == "Role" else "in the whole cluster"
    assert set(account.told()) == {
        f"The account may not {verb} {resource} {where}. deploy/rbac/nearline.yaml holds all that is needed."
    }


@pytest.mark.parametrize("verb", ["create", "delete"])
def test_without_one_verb_a_namespace_that_would_share_volumes_names_that_verb(account, verb):
    account.apply(without(account.objects, "Role", "tridentvolumereferences", verb))

    assert access.find_missing(account.gateway, provisioners.SHARE_PERMISSIONS, account.namespace) == (
        f"The account may not {verb} tridentvolumereferences in the namespace {account.namespace}. "
        "deploy/rbac/nearline.yaml holds all that is needed."
    )


def test_a_namespace_that_does_not_exist_is_named(account):
    account.apply(account.objects)

    assert account.problems(namespace="nowhere") == [
        "The cluster has no namespace called nowhere. Create it: `kubectl create namespace nowhere`."
    ]


def test_a_quota_that_no_pod_fits_into_is_named(control_plane, account):
    account.apply([*account.objects])
    control_plane.api.create(
        f"/api/v1/namespaces/{account.namespace}/resourcequotas",
        {"metadata": {"name": "tight"}, "spec": {"hard": {"limits.memory": "1Mi"}}},
    )
    control_plane.api.wait(
        f"/api/v1/namespaces/{account.namespace}/resourcequotas/tight", lambda quota: "hard" in quota.get("status", {})
    )

    (problem,) = account.problems()

    assert problem.startswith("The cluster would refuse the pods of jobs: ")
    assert "exceeded quota: tight" in problem


def test_a_priority_class_that_does_not_exist_is_named(account):
    account.apply(account.objects)

    (problem,) = account.problems(priority_class="no-such-class")

    assert "no-such-class" in problem


def test_the_strictest_level_of_pod_security_takes_our_pods(control_plane, account):
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    control_plane.api.patch(f"/api/v1/namespaces/{account.namespace}", label)
    account.apply(account.objects)

    assert account.problems() == []


def test_a_certificate_of_somebody_else_is_not_trusted(control_plane, account):
    config = read_kubeconfig(control_plane.kubeconfig.read_text())

    with pytest.raises(KubeconfigRefused, match="a certificate that the kubeconfig does not trust"):
        find_problems(Gateway(replace(config, ca=""), answer_s=ANSWER_S), account.settings)


def test_a_token_that_is_not_known_is_told(control_plane, account):
    config = read_kubeconfig(control_plane.kubeconfig.read_text())

    with pytest.raises(KubeconfigRefused, match="answered 401: Unauthorized"):
        find_problems(Gateway(replace(config, token="wrong"), answer_s=ANSWER_S), account.settings)


def test_an_account_without_a_verb_that_jobs_can_be_without_is_attached(account):
    account.apply(without(account.objects, "ClusterRole", "tridentversions", "list"))

    assert account.problems() == []
