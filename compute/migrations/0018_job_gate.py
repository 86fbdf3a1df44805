from django.db import migrations, models


def gate_waiting_jobs(apps, schema_editor):
    """Jobs that wait for the cached commits that they hold are those without a workload."""
    jobs = apps.get_model("compute", "Job").objects
    jobs.filter(workload=None, is_live=True, state="pending").update(gate="data")


class Migration(migrations.Migration):
    dependencies = [
        ("compute", "0017_gangs"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="gate",
            field=models.CharField(blank=True, choices=[("data", "data"), ("caller", "caller")], max_length=10),
        ),
        migrations.RunPython(gate_waiting_jobs, migrations.RunPython.noop),
    ]
