"""Indexes that no query needs are dropped: of when rows were made, and of keys with which another index begins."""

import django.db.models.deletion
from django.db import migrations, models

import core.clock
from core.index_drops import DropIndex

MODELS = ["checkpoint", "job", "jobevent", "jobgpuuse", "jobuse", "jobvolume", "resource", "resourcesite", "simulatedjob", "storedlogchunk", "template"]


class Migration(migrations.Migration):
    dependencies = [("compute", "0031_mounted_volumes")]

    operations = [
        *(DropIndex(model, "created_at", models.DateTimeField(default=core.clock.now, editable=False)) for model in MODELS),
        DropIndex("jobevent", "job", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="events", to="compute.job")),
        DropIndex("storedlogchunk", "job", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="log_chunks", to="compute.job")),
    ]
