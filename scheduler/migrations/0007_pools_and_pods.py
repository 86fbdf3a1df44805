"""Tables for pools of nodes, departments and limits, and workloads of several pods.

What exists is in one default pool, so shares stay as they are; each workload has one pod.
"""

import core.clock
import django.db.models.deletion
from django.db import migrations, models


def create_default_pool(apps, schema_editor):
    apps.get_model("scheduler", "Pool").objects.create(pk="pool_default", name="default")


def delete_default_pool(apps, schema_editor):
    apps.get_model("scheduler", "Pool").objects.all().delete()


def _base():
    return [
        ("id", models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
        ("created_at", models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
    ]


def _of(name, related_name, **options):
    return models.ForeignKey(related_name=related_name, to=f"scheduler.{name}", **options)


_CASCADE = {"on_delete": django.db.models.deletion.CASCADE}
_PROTECT = {"on_delete": django.db.models.deletion.PROTECT}


def _add_pool(model_name, related_name, options):
    return migrations.AddField(
        model_name, "pool", _of("pool", related_name, default="pool_default", **options), preserve_default=False
    )


def _bound(name):
    return migrations.AddField("queue", name, models.PositiveBigIntegerField(default=None, null=True))


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_initial"), ("scheduler", "0006_plain_words")]

    operations = [
        migrations.CreateModel(
            "Pool", [*_base(), ("name", models.CharField(max_length=63, unique=True))], options={"abstract": False}
        ),
        migrations.CreateModel(
            "PoolResource",
            [
                *_base(),
                ("resource_id", models.CharField(max_length=32, unique=True)),
                ("pool", _of("pool", "resources", **_CASCADE)),
            ],
            options={"abstract": False},
        ),
        migrations.RunPython(create_default_pool, delete_default_pool),
        _add_pool("node", "nodes", _PROTECT),
        _add_pool("queue", "queues", _CASCADE),
        migrations.AlterField(
            "queue", "project", models.ForeignKey(null=True, related_name="queues", to="accounts.project", **_CASCADE)
        ),
        migrations.AddField("queue", "name", models.CharField(blank=True, default="", max_length=63), preserve_default=False),
        migrations.AddField(
            "queue", "parent", _of("queue", "children", null=True, on_delete=django.db.models.deletion.SET_NULL)
        ),
        *(_bound(name) for name in ("gpu_limit_milli", "cpu_limit_millicores", "memory_limit_bytes")),
        migrations.AddConstraint(
            "queue", models.UniqueConstraint(fields=("pool", "project"), name="one_queue_per_project")
        ),
        migrations.AddConstraint(
            "queue",
            models.UniqueConstraint(
                condition=models.Q(project=None), fields=("pool", "name"), name="one_department_per_name"
            ),
        ),
        migrations.AddConstraint(
            "queue",
            models.CheckConstraint(
                condition=models.Q(project=None, name__gt="") | models.Q(project__isnull=False, name=""),
                name="queue_of_project_or_department",
            ),
        ),
        migrations.AddField("workload", "pod_sets", models.JSONField(default=list)),
        migrations.AddField("workload", "has_many_pods", models.BooleanField(default=False)),
        migrations.AddField("workload", "missing_bytes", models.JSONField(null=True)),
        migrations.AddField("workload", "revision", models.PositiveIntegerField(default=0)),
        migrations.AlterField("placement", "workload", _of("workload", "placements", **_CASCADE)),
        migrations.AddField("placement", "pod", models.CharField(default="0", max_length=80)),
        migrations.AddField("placement", "cpu_millicores", models.PositiveBigIntegerField(default=0)),
        migrations.AddField("placement", "memory_bytes", models.PositiveBigIntegerField(default=0)),
        migrations.AddConstraint(
            "placement", models.UniqueConstraint(fields=("workload", "pod"), name="one_placement_per_pod")
        ),
        migrations.AlterField("reservation", "workload", _of("workload", "reservations", **_CASCADE)),
        migrations.AddField("reservation", "pod", models.CharField(default="0", max_length=80)),
        migrations.AddConstraint(
            "reservation", models.UniqueConstraint(fields=("workload", "pod"), name="one_reservation_per_pod")
        ),
    ]
