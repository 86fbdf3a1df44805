"""What is special to a kind of resource lies in its config; the database need not know the kinds."""

from typing import Any

from django.db import migrations, models


def describe(apps: Any, _schema: Any) -> None:
    """Move declared nodes to the config, and note which resources are simulated."""
    resources = apps.get_model("compute", "Resource").objects.filter(kind="simulated")
    for resource in resources.only("nodes"):
        resources.filter(pk=resource.pk).update(is_simulated=True, config={"nodes": resource.nodes})


class Migration(migrations.Migration):
    dependencies = [("compute", "0007_resource_sites")]
    operations = [
        migrations.AlterField("resource", "kind", models.CharField(max_length=20)),
        migrations.AddField("resource", "is_simulated", models.BooleanField(default=False)),
        migrations.AddField("resource", "config", models.JSONField(default=dict)),
        migrations.AddField("resource", "credentials", models.BinaryField(default=b"")),
        migrations.RunPython(describe, migrations.RunPython.noop),
        migrations.RemoveField("resource", "nodes"),
    ]
