import core.clock
import django.db.models.deletion
import scheduler.engine.states
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Queue',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('project', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='queue', to='accounts.project')),
                ('gpu_quota_milli', models.PositiveBigIntegerField(default=0)),
                ('cpu_quota_millicores', models.PositiveBigIntegerField(default=None, null=True)),
                ('memory_quota_bytes', models.PositiveBigIntegerField(default=None, null=True)),
                ('over_quota_weight', models.FloatField(default=None, null=True)),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='Node',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('resource_id', models.CharField(db_index=True, max_length=32)),
                ('resource_name', models.CharField(max_length=63)),
                ('name', models.CharField(max_length=253)),
                ('cpu_millicores', models.PositiveBigIntegerField()),
                ('memory_bytes', models.PositiveBigIntegerField()),
                ('is_ready', models.BooleanField(default=True)),
                ('is_drained', models.BooleanField(default=False)),
                ('is_simulated', models.BooleanField(default=False)),
                ('labels', models.JSONField(default=dict)),
                ('revision', models.PositiveBigIntegerField(default=1)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('resource_id', 'name'), name='one_node_per_name')],
            },
        ),
        migrations.CreateModel(
            name='Gpu',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='gpus', to='scheduler.node')),
                ('index', models.PositiveIntegerField()),
                ('uuid', models.CharField(max_length=100)),
                ('model', models.CharField(max_length=100)),
                ('memory_bytes', models.PositiveBigIntegerField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('node', 'index'), name='one_gpu_per_index')],
            },
        ),
        migrations.CreateModel(
            name='Workload',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='workloads', to='accounts.project')),
                ('queue', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='workloads', to='scheduler.queue')),
                ('name', models.CharField(max_length=253, unique=True)),
                ('state', models.CharField(choices=[('pending', 'pending'), ('placed', 'placed'), ('released', 'released')], default=scheduler.engine.states.WorkloadState['PENDING'], max_length=10)),
                ('priority', models.IntegerField(default=50)),
                ('is_preemptible', models.BooleanField(default=True)),
                ('cpu_millicores', models.PositiveBigIntegerField()),
                ('memory_bytes', models.PositiveBigIntegerField()),
                ('gpu_milli', models.PositiveBigIntegerField(default=0)),
                ('resource_id', models.CharField(max_length=32)),
                ('reason', models.TextField(blank=True)),
                ('reason_code', models.CharField(blank=True, max_length=50)),
                ('enqueued_at', models.DateTimeField()),
                ('placed_at', models.DateTimeField(null=True)),
                ('released_at', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['state', 'resource_id'], name='workload_by_state')],
            },
        ),
        migrations.CreateModel(
            name='Placement',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('workload', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='placement', to='scheduler.workload')),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='placements', to='scheduler.node')),
                ('gpus', models.JSONField(default=list)),
                ('is_taken', models.BooleanField(default=False)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('is_taken', False)), fields=['id'], name='placements_to_take')],
            },
        ),
    ]
