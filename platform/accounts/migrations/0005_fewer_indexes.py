"""Indexes that no query needs are dropped: of when rows were made."""

from django.db import migrations, models

import core.clock
from core.index_drops import DropIndex

MODELS = ["apitoken", "auditentry", "membership", "project", "secret", "signinlink"]


class Migration(migrations.Migration):
    dependencies = [("accounts", "0004_deleted_projects")]

    operations = [
        *(DropIndex(model, "created_at", models.DateTimeField(default=core.clock.now, editable=False)) for model in MODELS),
    ]
