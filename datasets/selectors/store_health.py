"""Whether the stores answer."""

from collections.abc import Callable
from functools import partial

from core.errors import PlatformError, in_words
from datasets.adapters.opening import open_folder, open_store
from datasets.models import Store, StoreKind


def list_questions() -> dict[str, Callable[[], str]]:
    """Return for each store, by name, what asks it and returns what is wrong; empty where nothing is.

    The questions need no database, and may take as long as a store that is away does.
    """
    return {store.name: partial(_ask, store) for store in Store.objects.order_by("pk")}


def _ask(store: Store) -> str:
    try:
        if store.kind == StoreKind.FOLDER:
            open_folder(store).require_folder()
        else:
            next(open_store(store).list_blobs("datasets/"), None)
    except PlatformError as error:
        return error.for_admins
    except OSError as error:
        return in_words(error)
    return ""
