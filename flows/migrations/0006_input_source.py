"""A dataset of an attempt names the source that its job mounts, not a path."""

from typing import Any

from django.db import migrations, models


def move_paths(apps: Any, _schema: Any) -> None:
    """Describe each path as a folder of the platform's host."""
    inputs = apps.get_model("flows", "AttemptInput").objects
    for row in inputs.exclude(path="").only("path").iterator():
        inputs.filter(pk=row.pk).update(source={"kind": "host_folder", "path": row.path})


class Migration(migrations.Migration):
    dependencies = [("flows", "0005_log_problems_and_stretches")]
    operations = [
        migrations.AddField(model_name="attemptinput", name="source", field=models.JSONField(default=dict)),
        migrations.RunPython(move_paths, migrations.RunPython.noop),
        migrations.RemoveField(model_name="attemptinput", name="path"),
    ]
