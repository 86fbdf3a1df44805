import compute.engine.states
import compute.models
import core.clock
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('scheduler', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Resource',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('name', models.CharField(max_length=63)),
                ('kind', models.CharField(choices=[('local', 'local'), ('simulated', 'simulated')], max_length=20)),
                ('nodes', models.JSONField(default=list)),
                ('cache_site', models.CharField(blank=True, max_length=63)),
                ('state', models.CharField(choices=[('ready', 'ready'), ('unreachable', 'unreachable')], default=compute.models.ResourceState['READY'], max_length=20)),
                ('error', models.TextField(blank=True)),
                ('last_contact_at', models.DateTimeField(null=True)),
                ('detached_at', models.DateTimeField(null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('detached_at', None)), fields=('name',), name='one_attached_resource_per_name')],
            },
        ),
        migrations.CreateModel(
            name='Template',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('resource', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='templates', to='compute.resource')),
                ('name', models.CharField(max_length=63)),
                ('cpu_millicores', models.PositiveBigIntegerField()),
                ('memory_bytes', models.PositiveBigIntegerField()),
                ('gpu_milli', models.PositiveBigIntegerField(default=0)),
                ('labels', models.JSONField(default=dict)),
                ('price_per_hour', models.DecimalField(decimal_places=4, default=None, max_digits=10, null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('resource', 'name'), name='one_template_per_name')],
            },
        ),
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='jobs', to='accounts.project')),
                ('name', models.CharField(max_length=200, unique=True)),
                ('kind', models.CharField(max_length=30)),
                ('resource', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='compute.resource')),
                ('template', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='jobs', to='compute.template')),
                ('template_name', models.CharField(max_length=127)),
                ('cpu_millicores', models.PositiveBigIntegerField()),
                ('memory_bytes', models.PositiveBigIntegerField()),
                ('gpu_milli', models.PositiveBigIntegerField(default=0)),
                ('priority', models.IntegerField(default=50)),
                ('spec', models.JSONField()),
                ('submitted_by', models.CharField(max_length=200)),
                ('workload', models.OneToOneField(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='job', to='scheduler.workload')),
                ('node_name', models.CharField(blank=True, max_length=253)),
                ('gpus', models.JSONField(default=list)),
                ('state', models.CharField(choices=[('pending', 'pending'), ('starting', 'starting'), ('running', 'running'), ('stopping', 'stopping'), ('succeeded', 'succeeded'), ('failed', 'failed'), ('cancelled', 'cancelled'), ('lost', 'lost')], default=compute.engine.states.JobState['PENDING'], max_length=20)),
                ('token', models.CharField(default=compute.models.new_token, max_length=32)),
                ('starts', models.PositiveIntegerField(default=0)),
                ('lease_expires_at', models.DateTimeField(null=True)),
                ('event_seq', models.PositiveIntegerField(default=0)),
                ('exit_code', models.IntegerField(null=True)),
                ('reason_code', models.CharField(blank=True, choices=[('user_error', 'user_error'), ('timeout', 'timeout'), ('out_of_memory', 'out_of_memory'), ('infrastructure', 'infrastructure'), ('cancelled', 'cancelled')], max_length=30)),
                ('reason', models.TextField(blank=True)),
                ('started_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('files_deleted_at', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state__in', ['pending', 'running', 'starting', 'stopping'])), fields=['resource', 'state'], name='live_jobs'), models.Index(fields=['project', 'state'], name='jobs_of_project')],
            },
        ),
        migrations.CreateModel(
            name='JobEvent',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='compute.job')),
                ('seq', models.PositiveIntegerField()),
                ('state', models.CharField(max_length=20)),
                ('message', models.TextField()),
                ('at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('job', 'seq'), name='one_job_event_per_seq')],
            },
        ),
    ]
