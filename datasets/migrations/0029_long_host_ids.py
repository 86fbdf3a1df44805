"""The id of a host may have 64 characters, as its setting takes them."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('datasets', '0028_site_marks'),
    ]

    operations = [
        migrations.AlterField(
            model_name='cachesite',
            name='host',
            field=models.CharField(blank=True, max_length=64),
        ),
    ]
