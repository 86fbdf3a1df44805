"""Reads about stores."""

from datasets.errors import StoreNotFound
from datasets.models import Store


def get_default_store() -> Store:
    """Return the store that new datasets go to. Raises StoreNotFound before the first start has made one."""
    store = Store.objects.filter(is_default=True).first()
    if store is None:
        raise StoreNotFound("No store is registered yet.")
    return store
