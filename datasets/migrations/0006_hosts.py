from django.db import migrations, models


def mark_unbound(apps, schema_editor):
    """A site that was made before belongs to the host that has its folder."""
    apps.get_model("datasets", "CacheSite").objects.filter(kind="folder").update(host="unbound")


class Migration(migrations.Migration):

    dependencies = [
        ("datasets", "0005_cache_site_config"),
    ]

    operations = [
        migrations.AddField(
            model_name="cachesite",
            name="host",
            field=models.CharField(blank=True, max_length=32),
        ),
        migrations.RunPython(mark_unbound, migrations.RunPython.noop, elidable=True),
    ]
