from django.db import migrations, models


def mark_unbound(apps, schema_editor):
    """A machine that was attached before belongs to the host whose home folder has the files of its jobs."""
    apps.get_model("compute", "Resource").objects.filter(kind="local").update(host="unbound")


class Migration(migrations.Migration):

    dependencies = [
        ("compute", "0011_jobs_without_workload"),
    ]

    operations = [
        migrations.AddField(
            model_name="resource",
            name="host",
            field=models.CharField(blank=True, max_length=32),
        ),
        migrations.RunPython(mark_unbound, migrations.RunPython.noop, elidable=True),
    ]
