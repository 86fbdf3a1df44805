from tests.apps.flows.conftest import _null_queue, world

__all__ = ["_null_queue", "world"]
