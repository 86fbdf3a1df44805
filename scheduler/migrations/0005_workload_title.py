"""What people call a workload."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0004_evictions")]
    operations = [
        migrations.AddField(
            model_name="workload",
            name="title",
            field=models.CharField(blank=True, default="", max_length=300),
            preserve_default=False,
        ),
    ]
