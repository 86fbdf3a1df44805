"""Indexes that no query needs are dropped: of when rows were made."""

from django.db import migrations, models

import core.clock
from core.index_drops import DropIndex

MODELS = ["branch", "cachedcommit", "cachedcommitevent", "cachehold", "cachesite", "dataset", "filesource", "inplaceimport", "manifestrange", "pack", "query", "selection", "sharedcontent", "sitearray", "storagelimit", "store", "storedtree", "tag", "treehold", "uploadpart", "uploadsession"]


class Migration(migrations.Migration):
    dependencies = [("datasets", "0023_cached_commits_in_state")]

    operations = [
        *(DropIndex(model, "created_at", models.DateTimeField(default=core.clock.now, editable=False)) for model in MODELS),
    ]
