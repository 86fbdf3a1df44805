"""The id of a host may have 64 characters, as its setting takes them."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0005_fewer_indexes'),
    ]

    operations = [
        migrations.AlterField(
            model_name='lease',
            name='name',
            field=models.CharField(max_length=100, primary_key=True, serialize=False),
        ),
    ]
