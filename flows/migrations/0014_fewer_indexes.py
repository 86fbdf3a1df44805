"""Indexes that no query needs are dropped: of when rows were made, and of keys with which another index begins."""

import django.db.models.deletion
from django.db import migrations, models

import core.clock
from core.index_drops import DropIndex

MODELS = ["attempt", "attemptinput", "bundle", "flow", "flowdraft", "flowversion", "run", "step"]


class Migration(migrations.Migration):
    dependencies = [("accounts", "0005_fewer_indexes"), ("flows", "0013_early_inputs")]

    operations = [
        *(DropIndex(model, "created_at", models.DateTimeField(default=core.clock.now, editable=False)) for model in MODELS),
        DropIndex("attempt", "step", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="attempts", to="flows.step")),
        DropIndex("attemptinput", "attempt", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="inputs", to="flows.attempt")),
        DropIndex("run", "flow", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="runs", to="flows.flow")),
        DropIndex("run", "project", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="runs", to="accounts.project")),
        DropIndex("runevent", "run", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="events", to="flows.run")),
        DropIndex("step", "run", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="steps", to="flows.run")),
    ]
