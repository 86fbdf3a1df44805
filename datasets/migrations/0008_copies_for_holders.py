from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("datasets", "0007_volume_sites"),
    ]

    operations = [
        migrations.AddField(
            model_name="cachedcommit",
            name="is_for_holders",
            field=models.BooleanField(default=False),
        ),
    ]
