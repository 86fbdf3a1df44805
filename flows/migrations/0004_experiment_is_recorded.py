"""Which experiments recorded something: lists show these first."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import Exists, OuterRef, Q


def mark_recorded(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    """Mark what measured, recorded or left something, or was tagged or noted by somebody."""
    measured = apps.get_model("flows", "MetricLast").objects.filter(experiment=OuterRef("pk"))
    left = apps.get_model("flows", "Artifact").objects.filter(experiment=OuterRef("pk"))
    has_own = ~Q(logged={}) | ~Q(tags={}) | ~Q(note="")
    rows = apps.get_model("flows", "Experiment").objects.filter(Q(Exists(measured)) | Q(Exists(left)) | has_own)
    rows.update(is_recorded=True)


class Migration(migrations.Migration):
    dependencies = [("flows", "0003_step_label")]
    operations = [
        migrations.AddField(
            model_name="experiment",
            name="is_recorded",
            field=models.BooleanField(default=False),
        ),
        migrations.RunPython(mark_recorded, migrations.RunPython.noop),
        migrations.AddIndex(
            model_name="experiment",
            index=models.Index(
                condition=models.Q(("is_recorded", True)), fields=["project"], name="recorded_experiments"
            ),
        ),
    ]
