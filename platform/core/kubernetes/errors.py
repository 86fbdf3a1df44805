"""What can go wrong on the way to a cluster. Apps raise errors of their own for it."""

from core.errors import Blame, ErrorKind, InvalidInput, PlatformError


class InvalidKubeconfig(InvalidInput):
    """A kubeconfig cannot be used: it is none, lacks something, or names commands or files."""

    code = "core.invalid_kubeconfig"


class ClusterUnreachable(PlatformError):
    """A cluster does not answer; asking again later may help."""

    code = "core.cluster_unreachable"
    kind = ErrorKind.UNAVAILABLE
    blame = Blame.PROVIDER
    hint = "Check its address, and that it is up. If it is attached, the compute page shows its last contact."


class KubeconfigRefused(ClusterUnreachable):
    """A cluster does not know the account of a kubeconfig, or shows another certificate than it names."""

    code = "core.kubeconfig_refused"
    hint = "Make a new kubeconfig of this cluster. One that is attached already gets it by `nearline compute rotate`."
