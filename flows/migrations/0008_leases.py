from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('flows', '0007_is_live'),
    ]

    operations = [
        migrations.RenameField('run', 'lock_token', 'lease_token'),
        migrations.RenameField('run', 'locked_until', 'lease_expires_at'),
        migrations.AlterField('run', 'lease_token', models.CharField(blank=True, max_length=100)),
        migrations.AlterField('run', 'lease_expires_at', models.DateTimeField(null=True)),
        migrations.RenameField('attemptinput', 'locked_until', 'lease_expires_at'),
        migrations.AlterField('attemptinput', 'lease_expires_at', models.DateTimeField(null=True)),
        migrations.AddField(
            'attemptinput', 'lease_token', models.CharField(blank=True, default='', max_length=100), preserve_default=False,
        ),
    ]
