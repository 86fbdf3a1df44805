"""Compute resources, their nodes and templates."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nearline._http import Http, quoted
from nearline.errors import InvalidRequest, NotFound
from nearline.models import Node, Resource, ResourceEvent, ResourceLoss, Template

_PROBE_S = 300.0


class Compute:
    """Where steps run."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> Iterator[Resource]:
        """Yield the resources by name."""
        return map(Resource.read, self._http.list_items("/compute/resources"))

    def get(self, name: str) -> Resource:
        """Return a resource by its name. Raises NotFound."""
        for resource in self.list():
            if resource.name == name:
                return resource
        raise _not_found(name)

    def attach(
        self, name: str, kind: str, *, settings: Mapping[str, str] | None = None, sites: Sequence[str] = ()
    ) -> Resource:
        """Attach a resource once it has answered. For site admins. Raises InvalidRequest, which says what is wrong.

        With a storage class that is tried first, which may take minutes.
        """
        body = {"name": name, "kind": kind, "settings": dict(settings or {}), "sites": [*sites]}
        return Resource.read(self._http.post("/compute/resources", body, answer_s=_PROBE_S))

    def set_sites(self, name: str, sites: Sequence[str]) -> Resource:
        """Set the cache sites that jobs of a resource read, the nearest first. For site admins. Raises NotFound."""
        path = "/compute/resources" + quoted(name)
        return Resource.read(self._http.patch(path, {"sites": [*sites]}))

    def replace_credentials(self, name: str, credentials: Mapping[str, str]) -> Resource:
        """Store other credentials of a resource once it has answered with them; jobs that run go on. For site admins.

        They are named as when it was attached: `kubeconfig`, `private_key`, `docker_certificate` and `docker_key`.
        Raises InvalidRequest, NotFound and Unavailable; then the old ones stay.
        """
        path = "/compute/resources" + quoted(name)
        return Resource.read(self._http.patch(path, {"credentials": dict(credentials)}))

    def change_settings(self, name: str, settings: Mapping[str, str]) -> Resource:
        """Change settings of a cluster once it takes them, for pods that start from then on. For site admins.

        They are `agent_image`, `default_image` and `pull_policy`. Raises InvalidRequest, NotFound and Unavailable; then
        nothing changes.
        """
        return Resource.read(self._http.patch("/compute/resources" + quoted(name), {"settings": dict(settings)}))

    def drain(self, name: str, *, is_drained: bool = True) -> Resource:
        """Let the nodes of a resource take nothing new, or open them again. For site admins. Raises NotFound."""
        return Resource.read(self._http.patch("/compute/resources" + quoted(name), {"is_drained": is_drained}))

    def detach(self, name: str) -> None:
        """Take a resource away on which no job waits or runs. For site admins. Raises NotFound and Conflict."""
        self._http.delete("/compute/resources" + quoted(name))

    def list_events(self, name: str) -> Iterator[ResourceEvent]:
        """Yield what happened to a resource lately, the newest first. Raises NotFound."""
        return map(ResourceEvent.read, self._http.list_items("/compute/resources" + quoted(name) + "/events"))

    def foresee_loss(self, name: str) -> ResourceLoss:
        """Return what is lost with a resource that never comes back. For site admins. Raises NotFound and Conflict."""
        return ResourceLoss.read(self._http.get("/compute/resources" + quoted(name) + "/loss"))

    def give_up(self, name: str) -> ResourceLoss:
        """End the jobs and cache sites of a resource that never comes back, and detach it. For site admins.

        Raises NotFound, and Conflict for one that answers.
        """
        return ResourceLoss.read(self._http.post("/compute/resources" + quoted(name) + "/give-up"))

    def drain_node(self, node_id: str, *, is_drained: bool = True) -> Node:
        """Let one node take nothing new, or open it again. For site admins. Raises NotFound."""
        return Node.read(self._http.patch("/scheduler/nodes" + quoted(node_id), {"is_drained": is_drained}))

    def list_nodes(self, *, resource: str | None = None) -> Iterator[Node]:
        """Yield the nodes of all resources, or of one, and what is held on them. Raises NotFound."""
        is_empty = True
        for item in self._http.list_items("/scheduler/nodes", resource=resource):
            is_empty = False
            yield Node.read(item)
        # The scheduler knows nodes; a resource has none before its first report.
        if is_empty and resource is not None and all(each.name != resource for each in self.list()):
            raise _not_found(resource)

    def add_template(self, full_name: str, **shape: Any) -> Template:
        """Add a template, called `resource.template`. For site admins. Raises InvalidRequest and NotFound.

        `shape` holds `cpu_millicores` and `memory_bytes`, and may hold `gpu_milli`, `price_per_hour`, `pool` (one of
        its resource, where labels divide that) and, on a cluster, `pod`: `node_selector`, `tolerations`,
        `priority_class` and `image_pull_secrets`.
        """
        resource, _, name = full_name.partition(".")
        if not (resource and name):
            raise InvalidRequest(f"'{full_name}' does not name a template.", hint="Write RESOURCE.NAME, as lab.small.")
        return Template.read(self._http.post("/compute/templates", {"resource": resource, "name": name, **shape}))

    def list_templates(self, *, project: str | None = None) -> Iterator[Template]:
        """Yield the shapes in which steps can run."""
        return map(Template.read, self._http.list_items("/compute/templates", project=project))

    def change_template(self, full_name: str, **changes: Any) -> Template:
        """Change what is given of a template; its jobs keep their shape. For site admins. Raises NotFound."""
        return Template.read(self._http.patch("/compute/templates" + quoted(full_name), changes))

    def delete_template(self, full_name: str) -> None:
        """Delete a template; jobs that are there keep their shape. For site admins. Raises NotFound."""
        self._http.delete("/compute/templates" + quoted(full_name))


def _not_found(name: str) -> NotFound:
    return NotFound(
        f"There is no compute resource called '{name}'.",
        code="compute.resource_not_found",
        hint="List the resources with `nearline compute list`.",
    )
