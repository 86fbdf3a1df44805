"""Resources that are there stay in the pool in which they are; only those attached later get one of their own."""

from django.db import migrations


def keep_in_default_pool(apps, schema_editor):
    node, workload, membership = (
        apps.get_model("scheduler", name).objects for name in ("Node", "Workload", "PoolResource")
    )
    known = set(membership.values_list("resource_id", flat=True))
    resource_ids = set(node.values_list("resource_id", flat=True))
    resource_ids |= set(workload.exclude(state="released").values_list("resource_id", flat=True))
    for resource_id in sorted(resource_ids - known):
        membership.create(
            pk=f"poolres_{resource_id.partition('_')[2]}"[:32], pool_id="pool_default", resource_id=resource_id
        )


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0008_one_pod_each")]

    operations = [migrations.RunPython(keep_in_default_pool, migrations.RunPython.noop)]
