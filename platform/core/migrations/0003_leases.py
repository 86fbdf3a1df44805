from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0002_failures'),
    ]

    operations = [
        migrations.RenameField('lease', 'holder', 'lease_token'),
        migrations.RenameField('lease', 'expires_at', 'lease_expires_at'),
        migrations.AlterField('lease', 'lease_token', models.CharField(blank=True, max_length=100)),
        migrations.AlterField('lease', 'lease_expires_at', models.DateTimeField(null=True)),
    ]
