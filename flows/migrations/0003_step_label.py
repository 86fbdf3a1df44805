"""Steps have the name that people call them by; jobs and experiments that exist are called by it, too."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from flows.engine import names


def write_labels(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    """Give every step its label, and every attempt's experiment, job and workload a title made of it."""
    step_model, attempt_model = apps.get_model("flows", "Step"), apps.get_model("flows", "Attempt")
    experiment_model, job_model = apps.get_model("flows", "Experiment"), apps.get_model("compute", "Job")
    workload_model = apps.get_model("scheduler", "Workload")
    for step in step_model.objects.select_related("run__version", "run__flow").iterator(chunk_size=500):
        specs = {each["name"]: each for each in step.run.version.spec["steps"]}
        label = names.step_label(step.key, step.parameters, specs.get(step.key, {}).get("grid", {}))
        step_model.objects.filter(pk=step.pk).update(label=label)
        for attempt in attempt_model.objects.filter(step=step):
            title = names.attempt_label(step.run.flow.name, step.run.number, label, attempt.number)
            experiment_model.objects.filter(attempt=attempt).update(title=title)
            job_model.objects.filter(pk=attempt.job_id).update(title=title)
            workload_model.objects.filter(name=attempt.job_name).update(title=title)


class Migration(migrations.Migration):
    dependencies = [("flows", "0002_input_changed"), ("compute", "0004_job_title"), ("scheduler", "0005_workload_title")]
    operations = [
        migrations.AddField(
            model_name="step",
            name="label",
            field=models.CharField(default="", max_length=200),
            preserve_default=False,
        ),
        migrations.RunPython(write_labels, migrations.RunPython.noop),
    ]
