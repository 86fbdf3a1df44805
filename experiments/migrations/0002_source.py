"""What experiments knew through their attempt, step and run becomes fields of their own."""

import django.db.models.deletion
from django.db import migrations, models

_STATES = ("preparing", "queued", "running", "succeeded", "failed", "cancelled", "superseded")


def _text(length):
    return models.CharField(blank=True, default="", max_length=length)


class Migration(migrations.Migration):
    dependencies = [("experiments", "0001_initial"), ("compute", "0004_job_title")]

    operations = [
        migrations.AddField(
            "experiment",
            "job",
            models.OneToOneField(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="compute.job"
            ),
        ),
        migrations.AddField("experiment", "job_name", _text(200), preserve_default=False),
        migrations.AddField("experiment", "source_kind", _text(20), preserve_default=False),
        migrations.AddField("experiment", "source_id", models.CharField(max_length=64, null=True)),
        migrations.AddField("experiment", "flow", _text(63), preserve_default=False),
        migrations.AddField("experiment", "run_number", models.PositiveIntegerField(null=True)),
        migrations.AddField("experiment", "step_key", _text(63), preserve_default=False),
        migrations.AddField("experiment", "step_label", _text(200), preserve_default=False),
        migrations.AddField("experiment", "step_index", models.PositiveIntegerField(null=True)),
        migrations.AddField("experiment", "attempt_number", models.PositiveIntegerField(null=True)),
        migrations.AddField("experiment", "template", _text(127), preserve_default=False),
        migrations.AddField("experiment", "is_simulated", models.BooleanField(default=False)),
        migrations.AddField("experiment", "created_by", _text(200), preserve_default=False),
        migrations.AddField(
            "experiment",
            "state",
            models.CharField(choices=[(state, state) for state in _STATES], default="queued", max_length=20),
            preserve_default=False,
        ),
        migrations.AddField(
            "experiment", "reason", models.TextField(blank=True, default=""), preserve_default=False
        ),
        migrations.AddField("experiment", "started_at", models.DateTimeField(null=True)),
        migrations.AddField("experiment", "finished_at", models.DateTimeField(null=True)),
        migrations.AddField("experiment", "output_patterns", models.JSONField(default=list)),
    ]
