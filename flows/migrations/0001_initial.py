import core.clock
import django.db.models.deletion
import flows.engine.states
import flows.models.run
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('compute', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='FlowDraft',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='flow_drafts', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='flow_drafts', to='accounts.project')),
                ('key', models.CharField(max_length=64)),
                ('text', models.TextField()),
                ('layout', models.JSONField(default=dict)),
                ('base_version', models.PositiveIntegerField(null=True)),
                ('example', models.CharField(blank=True, max_length=63)),
                ('revision', models.PositiveIntegerField(default=1)),
                ('updated_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'project', 'key'), name='one_draft_per_flow')],
            },
        ),
        migrations.CreateModel(
            name='FactKey',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.project')),
                ('kind', models.CharField(choices=[('params', 'params'), ('metrics', 'metrics'), ('tags', 'tags'), ('data', 'data')], max_length=10)),
                ('key', models.CharField(max_length=200)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'kind', 'key'), name='one_key_per_project')],
            },
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='experiment_views', to='accounts.project')),
                ('name', models.CharField(max_length=100)),
                ('query', models.TextField()),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'name'), name='one_view_per_name')],
            },
        ),
        migrations.CreateModel(
            name='Flow',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='flows', to='accounts.project')),
                ('name', models.CharField(max_length=63)),
                ('title', models.CharField(blank=True, max_length=200)),
                ('description', models.TextField(blank=True)),
                ('updated_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'name'), name='one_flow_per_name')],
            },
        ),
        migrations.CreateModel(
            name='Bundle',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='bundles', to='accounts.project')),
                ('sha256', models.CharField(max_length=64)),
                ('size_bytes', models.PositiveBigIntegerField()),
                ('files', models.PositiveIntegerField()),
                ('content_hash', models.CharField(max_length=64)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'sha256'), name='one_bundle_per_hash')],
            },
        ),
        migrations.CreateModel(
            name='FlowVersion',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('flow', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='flows.flow')),
                ('number', models.PositiveIntegerField()),
                ('hash', models.CharField(max_length=64)),
                ('spec', models.JSONField()),
                ('text', models.TextField()),
                ('layout', models.JSONField(default=dict)),
                ('format', models.CharField(choices=[('yaml', 'yaml'), ('json', 'json')], max_length=10)),
                ('bundle', models.CharField(blank=True, max_length=64)),
                ('created_by', models.CharField(max_length=200)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('flow', 'hash'), name='one_version_per_hash'), models.UniqueConstraint(fields=('flow', 'number'), name='one_version_per_number')],
            },
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='accounts.project')),
                ('flow', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='flows.flow')),
                ('version', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='flows.flowversion')),
                ('number', models.PositiveIntegerField()),
                ('state', models.CharField(choices=[('pending', 'pending'), ('running', 'running'), ('succeeded', 'succeeded'), ('failed', 'failed'), ('cancelled', 'cancelled')], default=flows.engine.states.RunState['PENDING'], max_length=20)),
                ('reason', models.TextField(blank=True)),
                ('parameters', models.JSONField(default=dict)),
                ('datasets', models.JSONField(default=dict)),
                ('code', models.JSONField(default=dict)),
                ('created_by', models.CharField(max_length=200)),
                ('started_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('cancel_requested_at', models.DateTimeField(null=True)),
                ('retry_requested_at', models.DateTimeField(null=True)),
                ('retry_key', models.CharField(blank=True, max_length=63)),
                ('retry_index', models.PositiveIntegerField(null=True)),
                ('wake_at', models.DateTimeField(null=True)),
                ('event_seq', models.PositiveIntegerField(default=0)),
                ('lock_token', models.CharField(blank=True, max_length=32)),
                ('locked_until', models.DateTimeField(default=core.clock.now)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state__in', ['cancelled', 'failed', 'succeeded']), _negated=True), fields=['wake_at'], name='runs_to_wake'), models.Index(fields=['project', 'state'], name='runs_of_project')],
                'constraints': [models.UniqueConstraint(fields=('flow', 'number'), name='one_run_per_number')],
            },
        ),
        migrations.CreateModel(
            name='Step',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='flows.run')),
                ('key', models.CharField(max_length=63)),
                ('index', models.PositiveIntegerField()),
                ('position', models.PositiveIntegerField()),
                ('parameters', models.JSONField(default=dict)),
                ('state', models.CharField(choices=[('pending', 'pending'), ('preparing', 'preparing'), ('queued', 'queued'), ('running', 'running'), ('backoff', 'backoff'), ('succeeded', 'succeeded'), ('failed', 'failed'), ('skipped', 'skipped'), ('cancelled', 'cancelled')], default=flows.engine.states.StepState['PENDING'], max_length=20)),
                ('reason', models.TextField(blank=True)),
                ('choice', models.PositiveIntegerField(default=0)),
                ('template', models.CharField(blank=True, max_length=127)),
                ('tried', models.JSONField(default=list)),
                ('why', models.TextField(blank=True)),
                ('failures', models.JSONField(default=dict)),
                ('attempt_count', models.PositiveIntegerField(default=0)),
                ('chosen_attempt', models.CharField(blank=True, max_length=32)),
                ('not_before', models.DateTimeField(null=True)),
                ('started_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ['position', 'index'],
                'constraints': [models.UniqueConstraint(fields=('run', 'key', 'index'), name='one_step_per_index')],
            },
        ),
        migrations.CreateModel(
            name='RunEvent',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='flows.run')),
                ('seq', models.PositiveIntegerField()),
                ('kind', models.CharField(max_length=40)),
                ('step_key', models.CharField(blank=True, max_length=63)),
                ('step_index', models.PositiveIntegerField(null=True)),
                ('message', models.TextField(blank=True)),
                ('data', models.JSONField(default=dict)),
                ('at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('run', 'seq'), name='one_run_event_per_seq')],
            },
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='flows.run')),
                ('step', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='flows.step')),
                ('number', models.PositiveIntegerField()),
                ('choice', models.PositiveIntegerField(default=0)),
                ('template', models.CharField(max_length=127)),
                ('state', models.CharField(choices=[('preparing', 'preparing'), ('queued', 'queued'), ('running', 'running'), ('succeeded', 'succeeded'), ('failed', 'failed'), ('cancelled', 'cancelled'), ('superseded', 'superseded')], max_length=20)),
                ('reason', models.TextField(blank=True)),
                ('failure', models.CharField(blank=True, choices=[('user_error', 'user_error'), ('infrastructure', 'infrastructure'), ('out_of_memory', 'out_of_memory'), ('timeout', 'timeout')], max_length=20)),
                ('job_name', models.CharField(max_length=200, unique=True)),
                ('job', models.OneToOneField(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='attempt', to='compute.job')),
                ('remind_at', models.DateTimeField(null=True)),
                ('queued_at', models.DateTimeField(null=True)),
                ('started_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state__in', ['preparing', 'queued', 'running'])), fields=['run'], name='live_attempts')],
                'constraints': [models.UniqueConstraint(fields=('step', 'number'), name='one_attempt_per_number')],
            },
        ),
        migrations.CreateModel(
            name='Experiment',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='experiments', to='accounts.project')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='experiments', to='flows.run')),
                ('step', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='experiments', to='flows.step')),
                ('attempt', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='experiment', to='flows.attempt')),
                ('title', models.CharField(max_length=300)),
                ('parameters', models.JSONField(default=dict)),
                ('logged', models.JSONField(default=dict)),
                ('tags', models.JSONField(default=dict)),
                ('datasets', models.JSONField(default=list)),
                ('code', models.JSONField(default=dict)),
                ('log_offset', models.PositiveBigIntegerField(default=0)),
                ('harvested_at', models.DateTimeField(null=True)),
                ('artifacts_wanted', models.BooleanField(default=False)),
                ('artifacts_error', models.TextField(blank=True)),
                ('note', models.TextField(blank=True)),
                ('note_by', models.CharField(blank=True, max_length=200)),
                ('note_at', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('artifacts_wanted', True)), fields=['run'], name='artifacts_to_store')],
            },
        ),
        migrations.CreateModel(
            name='AttemptInput',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='inputs', to='flows.attempt')),
                ('name', models.CharField(max_length=100)),
                ('reference', models.CharField(max_length=300)),
                ('commit_id', models.CharField(max_length=64)),
                ('is_cached', models.BooleanField()),
                ('site', models.CharField(blank=True, max_length=63)),
                ('cached_commit_id', models.CharField(blank=True, db_index=True, max_length=32)),
                ('state', models.CharField(choices=[('pending', 'pending'), ('ready', 'ready'), ('failed', 'failed'), ('released', 'released')], default=flows.models.run.InputState['PENDING'], max_length=10)),
                ('path', models.TextField(blank=True)),
                ('error', models.TextField(blank=True)),
                ('locked_until', models.DateTimeField(default=core.clock.now)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('attempt', 'name'), name='one_input_per_name')],
            },
        ),
        migrations.CreateModel(
            name='MetricPoint',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('experiment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='points', to='flows.experiment')),
                ('key', models.CharField(max_length=200)),
                ('step', models.BigIntegerField()),
                ('value', models.FloatField(null=True)),
                ('at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['experiment', 'key', 'id'], name='points_of_metric')],
            },
        ),
        migrations.CreateModel(
            name='MetricLast',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('experiment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='metrics', to='flows.experiment')),
                ('key', models.CharField(max_length=200)),
                ('step', models.BigIntegerField()),
                ('value', models.FloatField(null=True)),
                ('points', models.PositiveBigIntegerField()),
                ('at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['key', 'experiment', 'value'], name='values_of_metric')],
                'constraints': [models.UniqueConstraint(fields=('experiment', 'key'), name='one_last_value_per_metric')],
            },
        ),
        migrations.CreateModel(
            name='Artifact',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('experiment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='artifacts', to='flows.experiment')),
                ('path', models.CharField(max_length=1000)),
                ('size_bytes', models.PositiveBigIntegerField()),
                ('content_hash', models.CharField(db_index=True, max_length=64)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('experiment', 'path'), name='one_artifact_per_path')],
            },
        ),
        migrations.CreateModel(
            name='Fact',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('experiment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='facts', to='flows.experiment')),
                ('kind', models.CharField(choices=[('params', 'params'), ('metrics', 'metrics'), ('tags', 'tags'), ('data', 'data')], max_length=10)),
                ('key', models.CharField(max_length=200)),
                ('number', models.FloatField(null=True)),
                ('text', models.TextField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('kind', 'key', 'experiment'), name='one_fact_per_key')],
            },
        ),
    ]
