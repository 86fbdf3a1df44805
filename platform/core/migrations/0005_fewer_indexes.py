"""Indexes that no query needs are dropped: of when rows were made."""

from django.db import migrations, models

import core.clock
from core.index_drops import DropIndex

MODELS = ["failure"]


class Migration(migrations.Migration):
    dependencies = [("core", "0004_known_keys")]

    operations = [
        *(DropIndex(model, "created_at", models.DateTimeField(default=core.clock.now, editable=False)) for model in MODELS),
    ]
