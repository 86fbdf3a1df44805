"""A database that is lost while its stores stay."""

from django.apps import apps

from accounts.models import Membership, Project
from datasets.models import Store


def lose_database() -> None:
    """Forget every project and all of datasets but where the stores are."""
    models = list(apps.get_app_config("datasets").get_models(include_auto_created=True))
    for model in [*models, Membership, Project]:
        if model is not Store:
            # Constraints are checked at the end of the transaction, so the order does not matter.
            rows = model._base_manager.all()
            rows._raw_delete(rows.db)
