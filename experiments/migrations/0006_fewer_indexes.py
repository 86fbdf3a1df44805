"""Indexes that no query needs are dropped: of when rows were made, and of keys with which another index begins."""

import django.db.models.deletion
from django.db import migrations, models

import core.clock
from core.index_drops import DropIndex

MODELS = ["artifact", "savedview"]


class Migration(migrations.Migration):
    dependencies = [("accounts", "0005_fewer_indexes"), ("experiments", "0005_lists_of_projects")]

    operations = [
        *(DropIndex(model, "created_at", models.DateTimeField(default=core.clock.now, editable=False)) for model in MODELS),
        DropIndex("artifact", "experiment", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="artifacts", to="experiments.experiment")),
        DropIndex("experiment", "project", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="experiments", to="accounts.project")),
        DropIndex("metriclast", "experiment", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="metrics", to="experiments.experiment")),
        DropIndex("metricpoint", "experiment", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="points", to="experiments.experiment")),
    ]
