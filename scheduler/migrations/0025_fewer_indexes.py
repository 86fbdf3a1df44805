"""Indexes that no query needs are dropped: of when rows were made, and of keys with which another index begins."""

import django.db.models.deletion
from django.db import migrations, models

import core.clock
from core.index_drops import DropIndex

MODELS = ["answer", "eviction", "forecast", "gpu", "node", "nodespan", "packing", "pastplacement", "placement", "pool", "poolresource", "poolsample", "queue", "queuesample", "reservation", "workload"]


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0024_shared_answers")]

    operations = [
        *(DropIndex(model, "created_at", models.DateTimeField(default=core.clock.now, editable=False)) for model in MODELS),
        DropIndex("placement", "workload", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="placements", to="scheduler.workload")),
    ]
