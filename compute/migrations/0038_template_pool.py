"""A template may name the pool of its resource in which its jobs are."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("compute", "0037_deleted_jobs_purged")]

    operations = [migrations.AddField("template", "pool", models.CharField(blank=True, default="", max_length=63))]
