"""What people call a job, and why it failed by the last lines of its log."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("compute", "0003_unconfined_reason")]
    operations = [
        migrations.AddField(
            model_name="job",
            name="title",
            field=models.CharField(blank=True, default="", max_length=300),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="job",
            name="last_lines",
            field=models.TextField(blank=True, default=""),
            preserve_default=False,
        ),
    ]
