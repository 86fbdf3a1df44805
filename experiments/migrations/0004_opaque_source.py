"""Experiments know runs by their ids only, and attempts and steps not at all."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0003_fill_source")]

    operations = [
        migrations.RemoveIndex("experiment", "artifacts_to_store"),
        migrations.SeparateDatabaseAndState(
            # The column and its index stay; only what ties it to the table of runs goes.
            database_operations=[
                migrations.AlterField(
                    "experiment",
                    "run",
                    models.ForeignKey(
                        db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, to="flows.run"
                    ),
                )
            ],
            state_operations=[
                migrations.RemoveField("experiment", "run"),
                migrations.AddField(
                    "experiment", "run_id", models.CharField(blank=True, db_index=True, max_length=32)
                ),
            ],
        ),
        migrations.RemoveField("experiment", "step"),
        migrations.RemoveField("experiment", "attempt"),
        migrations.AddIndex(
            "experiment",
            models.Index(condition=models.Q(artifacts_wanted=True), fields=["run_id"], name="artifacts_to_store"),
        ),
        migrations.AddField(
            "experiment",
            "is_live",
            models.GeneratedField(
                db_persist=True,
                expression=models.ExpressionWrapper(
                    models.Q(("state__in", ["preparing", "queued", "running"])), output_field=models.BooleanField()
                ),
                output_field=models.BooleanField(),
            ),
        ),
        migrations.AddIndex(
            "experiment",
            models.Index(condition=models.Q(is_live=True), fields=["state", "source_kind"], name="live_experiments"),
        ),
        migrations.AddConstraint(
            "experiment",
            models.UniqueConstraint(fields=("source_kind", "source_id"), name="one_experiment_per_source"),
        ),
    ]
