"""Connections to attached clusters, for apps below the one that attaches them and keeps their credentials.

Whoever needs a cluster names the attached resource; the composition root registers what opens it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from core.errors import NotFound
from core.kubernetes.gateway import Gateway


class ClusterNotAttached(NotFound):
    """No cluster is attached under this id, or not any more."""

    code = "core.cluster_not_attached"
    hint = "Attach the cluster again, or remove what names it."


@dataclass(frozen=True)
class ClusterConnection:
    """An attached cluster: what speaks with it, the namespace of our objects, and what all pods of ours have.

    `resource` is the id under which it is attached, `platform_url` the address of the platform as pods reach it,
    `user_id` the user that containers run as.
    """

    gateway: Gateway
    namespace: str
    platform_url: str
    agent_image: str
    resource: str = ""
    pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    user_id: int = 65532
    priority_class: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, str], ...] = ()


Opener = Callable[[str], ClusterConnection]


def _open_nothing(resource: str) -> ClusterConnection:
    raise ClusterNotAttached(f"No cluster is attached as {resource}.")


_opener: Opener = _open_nothing


def install(opener: Opener) -> Opener:
    """Have connections opened by this from now on, and return what opened them before.

    It gets the id or the name of a resource, and raises ClusterNotAttached where that is no attached cluster.
    """
    global _opener
    before, _opener = _opener, opener
    return before


def open_connection(resource: str) -> ClusterConnection:
    """Return the connection to an attached cluster, given by id or name. Asks nothing. Raises ClusterNotAttached."""
    return _opener(resource)
