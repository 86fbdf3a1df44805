from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('datasets', '0003_stored_trees'),
    ]

    operations = [
        migrations.AlterField('cachedcommit', 'lease_token', models.CharField(blank=True, max_length=100)),
    ]
