"""The Helm chart: what it refuses, what it renders, and Nearline installed by it into a cluster that runs pods."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
import pytest
from ruamel.yaml import YAML

from compute.adapters.kubernetes.kind import KubernetesForm
from tests import services
from tests.folders import open_folder
from tests.journeys.product import BIN
from tests.kubernetes import images
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.network import cluster_network, forwarded
from tests.kubernetes.programs import missing_for_control_plane, missing_for_node, program
from tests.kubernetes.provisioner import STORAGE_CLASS
from tests.kubernetes.rbac import RBAC
from tests.ports import reserve_port

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/nearline"
EXTERNAL = {"database.url": "postgresql://n@db/n", "broker.url": "redis://r/0", "store.url": "s3://datasets/n"}
FLOW = """
flow: digits
steps:
  - name: prepare
    command: cp $NEARLINE_DATA/digits/numbers.csv $NEARLINE_OUTPUT/
    data: [{dataset: demo/digits@main}]
    compute: [this-cluster.tiny]
  - name: train
    command: echo accuracy=$(wc -l < $NEARLINE_INPUT/prepare/numbers.csv); echo model > $NEARLINE_OUTPUT/model
    after: [prepare]
    compute: [this-cluster.tiny]
"""

pytestmark = pytest.mark.skipif(bool(missing_for_control_plane()), reason=missing_for_control_plane())


def helm(*arguments: object, environment: dict[str, str] | None = None, check: bool = True):
    command = [program("helm"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert not check or done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


def values(settings: dict[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("--set-string", f"{name}={value}")]


def render(*options: str, namespace: str = "team", **settings: str) -> list[dict]:
    fixed = ["--namespace", namespace, "--kube-version", "1.34"]
    text = helm("template", "nearline", CHART, *fixed, *options, *values(settings)).stdout
    return [item for item in YAML(typ="safe").load_all(text) if item]


VARIANTS = [
    pytest.param(values(EXTERNAL), id="full"),
    pytest.param([*values(EXTERNAL), "--set", "ingress.enabled=true,ingress.host=n.example.org"], id="ingress"),
    pytest.param(
        [
            *values(EXTERNAL),
            "--set",
            "ingress.enabled=true,ingress.host=n.example.org,ingress.jobsHost=jobs.example.net",
        ],
        id="names for ports",
    ),
    pytest.param(["--set", "existingSecret=connections,cluster.attach=false"], id="own secret, no cluster"),
    pytest.param(["--set", "trial.enabled=true,networkPolicy.enabled=false"], id="trial"),
    pytest.param([*values(EXTERNAL), "--set", "existingKeysSecret=keys,caConfigMap=ca"], id="own keys and authorities"),
]


@pytest.mark.parametrize("options", VARIANTS)
def test_the_cluster_takes_what_is_rendered(control_plane, namespace, options):
    objects = {"apiVersion": "v1", "kind": "List", "items": render(*options, namespace=namespace)}

    answer = control_plane.kubectl("apply", "--dry-run=server", "-n", namespace, "-f", "-", manifest=objects)

    assert len(answer.splitlines()) == len(objects["items"])


@pytest.mark.parametrize("options", VARIANTS)
def test_pods_fit_the_restricted_level(options):
    templates = [item["spec"]["template"]["spec"] for item in render(*options) if "template" in item.get("spec", {})]

    assert templates
    for spec in templates:
        (container,) = spec["containers"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_its_account_may_do_what_the_account_of_an_attached_cluster_may():
    def rules_of(objects) -> dict[str, list]:
        return {item["kind"]: item["rules"] for item in objects if item["kind"] in {"Role", "ClusterRole"}}

    assert rules_of(render(*values(EXTERNAL))) == rules_of(YAML(typ="safe").load_all(RBAC.read_text()))


def containers_of(objects: list[dict]) -> list[dict]:
    return [
        one
        for item in objects
        if "template" in item.get("spec", {})
        for one in item["spec"]["template"]["spec"]["containers"]
    ]


def test_an_own_secret_holds_the_keys_in_place_of_new_ones_with_each_rendering():
    objects = render(*values(EXTERNAL), existingKeysSecret="keys")

    assert not [item for item in objects if item["kind"] == "Secret" and "NEARLINE_SECRET_KEY" in item["data"]]
    assert [one["envFrom"][0] for one in containers_of(objects)] == [{"secretRef": {"name": "keys"}}] * 4
    assert render(*values(EXTERNAL), existingKeysSecret="keys") == objects


@pytest.mark.parametrize("options", [values(EXTERNAL), ["--set", "trial.enabled=true"]])
def test_processes_trust_the_authorities_of_a_config_map(options):
    objects = render(*options, caConfigMap="company")

    for item in (item for item in objects if "template" in item.get("spec", {})):
        spec = item["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        variables = {one["name"]: one.get("value") for one in container["env"]}
        (folder,) = (one["mountPath"] for one in container["volumeMounts"] if one["name"] == "ca")
        assert {variables["SSL_CERT_FILE"], variables["AWS_CA_BUNDLE"]} == {f"{folder}/ca.crt"}
        assert {"name": "ca", "configMap": {"name": "company", "items": [{"key": "ca.crt", "path": "ca.crt"}]}} in spec[
            "volumes"
        ]


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://nearline.team.svc"),
        ({"ingress.host": "n.example.org"}, "http://n.example.org"),
        ({"ingress.host": "n.example.org", "ingress.tlsSecret": "tls"}, "https://n.example.org"),
        ({"ingress.host": "n.example.org", "publicUrl": "https://people.example.org"}, "https://people.example.org"),
    ],
)
def test_people_reach_it_at_its_ingress_where_no_other_address_is_named(settings, url):
    enabled = "true" if settings else "false"
    objects = render(*values(EXTERNAL), "--set", f"ingress.enabled={enabled}", **settings)

    assert {
        one["value"] for each in containers_of(objects) for one in each["env"] if one["name"] == "NEARLINE_PUBLIC_URL"
    } == {url}


def test_its_account_may_run_jobs_in_the_namespace_that_is_named_for_them():
    objects = render(*values(EXTERNAL), **{"cluster.settings.namespace": "jobs"})

    kinds = {"Role", "RoleBinding"}
    assert {
        item["kind"]: item["metadata"].get("namespace") for item in objects if item["kind"] in kinds
    } == dict.fromkeys(kinds, "jobs")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        pytest.param({}, "Give database.url, or existingSecret, or trial.enabled=true.", id="no database"),
        pytest.param({**EXTERNAL, "database.url": "mysql://x"}, "/database/url", id="another database"),
        pytest.param({**EXTERNAL, "web.replicas": "none"}, "/web/replicas", id="no number"),
        pytest.param({**EXTERNAL, "ingress.enabled": "true"}, "/ingress/enabled", id="text for a switch"),
        pytest.param({**EXTERNAL, "databse.url": "x"}, "databse", id="a name that does not exist"),
        pytest.param(
            {**EXTERNAL, "cluster.settings.default_imgae": "x"}, "default_imgae", id="no setting of a cluster"
        ),
        pytest.param({**EXTERNAL, "publicUrl": "nearline.example.org"}, "/publicUrl", id="no scheme"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, complaint):
    done = helm("template", "nearline", CHART, "--kube-version", "1.34", *values(settings), check=False)

    assert done.returncode != 0
    assert complaint in done.stderr


def test_the_schema_knows_the_settings_of_a_cluster():
    schema = json.loads((CHART / "values.schema.json").read_text())

    fields = set(KubernetesForm.base_fields) - {"kubeconfig", "own_account", "context"}
    assert set(schema["properties"]["cluster"]["properties"]["settings"]["properties"]) == fields


@dataclass
class Installed:
    """A release in a namespace of a cluster, and what it stands on."""

    cluster: Cluster
    namespace: str
    settings: dict[str, str]
    folder: Path
    token: str = ""
    url: str = ""

    def helm(self, *arguments: object) -> str:
        options = ["--kubeconfig", self.cluster.kubeconfig, "--namespace", self.namespace, "--timeout", "8m"]
        done = helm(*arguments, *options, check=False)
        assert done.returncode == 0, f"{done.stderr[-2000:]}\n{self.cluster.describe(self.namespace)[-6000:]}"
        return done.stdout

    def install(self, verb: str = "install", **more: str) -> None:
        few = ["--set", "worker.replicas=1,controller.replicas=1"]
        self.helm(verb, "nearline", CHART, "--wait", *few, *values({**self.settings, **more}))
        self.forward()

    def forward(self) -> None:
        """Reach the Service under `url`, as the notes after `helm install` say."""
        # helm waits for new pods only, and kubectl would lead to the oldest one that is not being deleted.
        web = f"--namespace={self.namespace}", "deployment/nearline-web"
        self.cluster.kubectl("rollout", "status", *web, "--timeout=280s")
        programs, port = self.cluster.programs, reserve_port()
        programs.kill("port-forward")
        command = [program("kubectl"), "--kubeconfig", self.cluster.kubeconfig, "--namespace", self.namespace]
        programs.start("port-forward", [*command, "port-forward", "service/nearline", f"{port}:80"])
        self.url = f"http://127.0.0.1:{port}"
        programs.wait_until(lambda: services.listens(port))

    def sign_in(self) -> None:
        """Sign in as an admin does after `helm install`, and take a token for the command line."""
        link = self.cluster.kubectl(
            "exec", "deploy/nearline-web", f"--namespace={self.namespace}", "--", "python3", "manage.py", "sign_in"
        )
        with httpx.Client(base_url=self.url, follow_redirects=True, timeout=60) as browser:
            page = httpx.URL(link.strip()).path
            browser.get(page)
            headers = {"X-CSRFToken": browser.cookies["csrftoken"]}
            assert browser.post(page, headers=headers).status_code == 200
            headers = {"X-CSRFToken": browser.cookies["csrftoken"]}
            made = browser.post("/api/v1/tokens", json={"name": "admin"}, headers=headers)
            assert made.status_code == 201, made.text
            self.token = made.json()["secret"]

    def api(self, method: str, path: str, body: dict | None = None) -> dict:
        answer = httpx.request(
            method,
            f"{self.url}/api/v1{path}",
            json=body,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=60,
        )
        assert answer.is_success, answer.text
        return answer.json() if answer.content else {}

    def cli(self, *arguments: str, cwd: Path) -> str:
        environment = {"NEARLINE_URL": self.url, "NEARLINE_TOKEN": self.token, "HOME": str(self.folder)}
        command = [BIN / "nearline", *arguments]
        done = subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.cluster.describe(self.namespace)[-4000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def networked(cluster) -> Iterator[Cluster]:
    """The cluster with names and addresses of Services."""
    with cluster_network(cluster):
        yield cluster


@pytest.fixture
def release(networked, trident, product_image, tmp_path) -> Iterator[Installed]:
    """What a release needs: PostgreSQL, Redis, S3 and volumes that pods reach, and a namespace at the restricted level."""
    tools = services.find_tools()
    namespace = networked.create_namespace("chart-release", enforce="restricted")
    repository, tag = product_image.rsplit(":", 1)
    with contextlib.ExitStack() as stack:
        base = stack.enter_context(open_folder())  # the database server runs as another user
        found = {
            **stack.enter_context(services.postgres(tools["postgres"].parent, base)),
            **stack.enter_context(services.redis(tools["redis-server"], base)),
            **stack.enter_context(services.s3(tools["versitygw"], base)),
        }
        with psycopg.connect(found["NEARLINE_TEST_POSTGRES"], autocommit=True) as connection:
            connection.execute("CREATE DATABASE nearline")

        def reachable(url: str) -> str:
            address, _, rest = url.rpartition("127.0.0.1:")[2].partition("/")
            port = stack.enter_context(forwarded(networked.address, int(address)))
            return f"{url.rpartition('127.0.0.1:')[0]}{networked.address}:{port}/{rest}".rstrip("/")

        store = reachable(found["NEARLINE_TEST_S3"])
        settings = {
            "image.repository": repository,
            "image.tag": tag,
            "image.pullPolicy": "Never",
            "database.url": reachable(found["DATABASE_URL"]),
            "broker.url": reachable(f"{found['NEARLINE_TEST_REDIS']}/0"),
            "store.url": f"s3://{found['NEARLINE_TEST_BUCKET']}/chart?endpoint={store}",
            "store.accessKey": found["NEARLINE_TEST_S3_ACCESS_KEY"],
            "store.secretKey": found["NEARLINE_TEST_S3_SECRET_KEY"],
            "cluster.settings.default_image": images.USER_IMAGE,
            "cluster.settings.storage_class": STORAGE_CLASS,
        }
        installed = Installed(networked, namespace, settings, tmp_path)
        try:
            yield installed
        finally:
            networked.programs.kill("port-forward")
            networked.api.delete(f"/api/v1/namespaces/{namespace}")


@pytest.mark.skipif(bool(missing_for_node()), reason=missing_for_node())
def test_nearline_installed_by_helm_runs_flows_in_its_cluster_and_loses_nothing(release, tmp_path):
    release.install()
    release.sign_in()
    release.api("POST", "/projects", {"name": "demo"})
    shape = {"resource": "this-cluster", "name": "tiny", "cpu_millicores": 100, "memory_bytes": 2**26}
    release.api("POST", "/compute/templates", shape)
    data, flow = tmp_path / "digits", tmp_path / "flow"
    data.mkdir()
    (data / "numbers.csv").write_text("1\n2\n3\n")
    release.cli("data", "init", "--project", "demo", "--title", "digits", cwd=data)
    release.cli("data", "sync", "-m", "first", cwd=data)
    flow.mkdir()
    (flow / "flow.yaml").write_text(FLOW)

    run = json.loads(release.cli("flow", "run", "flow.yaml", "--project", "demo", "--wait", "--json", cwd=flow))

    assert run["state"] == "succeeded"
    resource = {item["name"]: item for item in release.api("GET", "/compute/resources")["items"]}["this-cluster"]
    assert (resource["state"], resource["is_simulated"], resource["sites"]) == ("ready", False, ["this-cluster"])
    release.cli("data", "cache", "demo/digits@main", "--site", "this-cluster", "--wait", cwd=tmp_path)

    release.install("upgrade", **{"settings.NEARLINE_LOG_LEVEL": "INFO", "cluster.settings.output_minutes": "3"})
    assert release.api("GET", f"/runs/{run['id']}")["state"] == "succeeded"

    release.helm("rollback", "nearline", "--wait")
    release.forward()
    assert release.api("GET", f"/runs/{run['id']}")["state"] == "succeeded"

    release.helm("uninstall", "nearline", "--wait")
    ours = ["--selector=app.kubernetes.io/name=nearline", f"--namespace={release.namespace}"]
    release.cluster.kubectl("wait", "--for=delete", "pod", *ours, "--timeout=300s")

    release.install()
    assert release.api("GET", f"/runs/{run['id']}")["state"] == "succeeded"
    clone = tmp_path / "clone"
    release.cli("data", "clone", "demo/digits", str(clone), cwd=tmp_path)
    assert (clone / "numbers.csv").read_text() == "1\n2\n3\n"
