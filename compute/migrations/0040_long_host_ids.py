"""The id of a host may have 64 characters, as its setting takes them."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('compute', '0039_launchers'),
    ]

    operations = [
        migrations.AlterField(
            model_name='resource',
            name='host',
            field=models.CharField(blank=True, max_length=64),
        ),
    ]
