"""A WebSocket that is opened where it was asked for, and nowhere else."""

from websockets.asyncio.client import connect


class ConnectDirectly(connect):
    """Follows no redirect: whoever answers for a cluster could lead us to any host that we reach."""

    def process_redirect(self, exc: Exception) -> Exception:
        """Return why there is no connection."""
        return exc
