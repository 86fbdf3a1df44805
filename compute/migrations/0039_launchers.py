"""A gang may have a launcher: one more pod, of a size of its own."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("compute", "0038_template_pool")]

    operations = [
        migrations.AddField("job", "launcher_cpu_millicores", models.PositiveBigIntegerField(default=0)),
        migrations.AddField("job", "launcher_memory_bytes", models.PositiveBigIntegerField(default=0)),
    ]
