"""A resource may be divided among pools by the labels of its nodes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0025_fewer_indexes")]

    operations = [
        migrations.AddField("poolresource", "label", models.CharField(blank=True, default="", max_length=381), preserve_default=False),
        migrations.AlterField("poolresource", "resource_id", models.CharField(max_length=32)),
        migrations.AddConstraint("poolresource", models.UniqueConstraint(fields=("resource_id", "label"), name="one_pool_per_label")),
    ]
