import compute.engine.states
from django.db import migrations, models


class Migration(migrations.Migration):
    # A generated column cannot be changed, so it is made anew, with the indexes that read it.

    dependencies = [
        ('compute', '0018_job_gate'),
    ]

    operations = [
        migrations.RemoveIndex(model_name='job', name='live_jobs'),
        migrations.RemoveIndex(model_name='job', name='jobs_without_workload'),
        migrations.RemoveField(model_name='job', name='is_live'),
        migrations.AddField(
            model_name='job',
            name='is_live',
            field=models.GeneratedField(db_persist=True, expression=models.ExpressionWrapper(models.Q(('state__in', ['leaving', 'pending', 'running', 'starting', 'stopping', 'suspended', 'suspending'])), output_field=models.BooleanField()), output_field=models.BooleanField()),
        ),
        migrations.AlterField(
            model_name='job',
            name='state',
            field=models.CharField(choices=[('pending', 'pending'), ('starting', 'starting'), ('running', 'running'), ('leaving', 'leaving'), ('suspending', 'suspending'), ('suspended', 'suspended'), ('stopping', 'stopping'), ('succeeded', 'succeeded'), ('failed', 'failed'), ('cancelled', 'cancelled'), ('lost', 'lost')], default=compute.engine.states.JobState['PENDING'], max_length=20),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('is_live', True)), fields=['resource', 'state'], name='live_jobs'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('is_live', True), ('workload', None)), fields=['state'], name='jobs_without_workload'),
        ),
    ]
