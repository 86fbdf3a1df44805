"""The product with a cluster attached from the command line, where pods of that cluster reach it."""

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

from tests.journeys.product import Product
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.images import USER_IMAGE
from tests.kubernetes.network import forwarded
from tests.kubernetes.rbac import grant, manifests_for


@contextlib.contextmanager
def reachable_product(cluster: Cluster, home: Path, **environment: str) -> Iterator[Product]:
    """Run the product where pods reach it."""
    product = Product(home, environment=environment)
    with forwarded(cluster.node.address, product.port) as port:
        product.environment["NEARLINE_PUBLIC_URL"] = f"http://{cluster.node.address}:{port}"
        product.environment["NEARLINE_ALLOWED_HOSTS"] = "*"
        product.start()
        try:
            yield product
        finally:
            product.stop()


@contextlib.contextmanager
def attached_product(cluster: Cluster, folder: Path, agent_image: str, *options: str) -> Iterator[tuple[Product, str]]:
    """Yield the product and the namespace of the cluster `lab-k8s`; `lab-k8s.small` is a template of it."""
    with reachable_product(cluster, folder / "home") as product:
        yield product, attach(product, cluster, folder, "lab-k8s", agent_image, *options)


def attach(product: Product, cluster: Cluster, folder: Path, name: str, agent_image: str, *options: str) -> str:
    """Attach a new namespace of a cluster under a name, with a template `small`; return the namespace."""
    namespace = cluster.create_namespace(f"jobs-{secrets.token_hex(4)}", enforce="restricted")
    grant(cluster, manifests_for(namespace))
    kubeconfig = folder / f"{name}.kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig_of("nearline", namespace=namespace))
    where = ["--kubeconfig", str(kubeconfig), "--namespace", namespace]
    images = ["--agent-image", agent_image, "--image", USER_IMAGE, "--set", "pull_policy=Never"]
    product.cli("compute", "attach", name, *where, *images, *options, "--no-probe", cwd=folder)
    shape = {"resource": name, "name": "small", "cpu_millicores": 100, "memory_bytes": 2**26}
    product.api("POST", "/compute/templates", shape)
    return namespace
