"""The tables of experiments, which `flows.0009` renamed: only the state of the models is new here."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import core.clock

_MODELS = ("experiment", "metricpoint", "metricstretch", "metriclast", "artifact", "fact", "factkey", "savedview")


def move_content_types(apps, schema_editor):
    """Keep the content types of models that are in another app now."""
    types = apps.get_model("contenttypes", "ContentType").objects
    types.filter(app_label="flows", model__in=_MODELS).update(app_label="experiments")


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0003_secret_users"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("flows", "0009_move_experiments"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
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
                        ('is_recorded', models.BooleanField(default=False)),
                        ('log_problems', models.JSONField(default=dict)),
                    ],
                    options={
                        'indexes': [models.Index(condition=models.Q(('artifacts_wanted', True)), fields=['run'], name='artifacts_to_store'), models.Index(condition=models.Q(('is_recorded', True)), fields=['project'], name='recorded_experiments')],
                        'constraints': [],
                    },
                ),
                migrations.CreateModel(
                    name='MetricPoint',
                    fields=[
                        ('id', models.BigAutoField(primary_key=True, serialize=False)),
                        ('experiment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='points', to='experiments.experiment')),
                        ('key', models.CharField(max_length=200)),
                        ('step', models.BigIntegerField()),
                        ('value', models.FloatField(null=True)),
                        ('at', models.DateTimeField()),
                    ],
                    options={
                        'indexes': [models.Index(fields=['experiment', 'key', 'id'], name='points_of_metric')],
                        'constraints': [],
                    },
                ),
                migrations.CreateModel(
                    name='MetricStretch',
                    fields=[
                        ('id', models.BigAutoField(primary_key=True, serialize=False)),
                        ('key', models.CharField(max_length=200)),
                        ('level', models.PositiveSmallIntegerField()),
                        ('data', models.BinaryField()),
                        ('experiment', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='stretches', to='experiments.experiment')),
                    ],
                    options={
                        'indexes': [models.Index(fields=['experiment', 'key', 'level', 'id'], name='stretches_of_metric')],
                        'constraints': [],
                    },
                ),
                migrations.CreateModel(
                    name='MetricLast',
                    fields=[
                        ('id', models.BigAutoField(primary_key=True, serialize=False)),
                        ('experiment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='metrics', to='experiments.experiment')),
                        ('key', models.CharField(max_length=200)),
                        ('step', models.BigIntegerField()),
                        ('value', models.FloatField(null=True)),
                        ('points', models.PositiveBigIntegerField()),
                        ('at', models.DateTimeField()),
                        ('open_stretches', models.BinaryField(default=bytes)),
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
                        ('experiment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='artifacts', to='experiments.experiment')),
                        ('path', models.CharField(max_length=1000)),
                        ('size_bytes', models.PositiveBigIntegerField()),
                        ('content_hash', models.CharField(db_index=True, max_length=64)),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('experiment', 'path'), name='one_artifact_per_path')],
                        'indexes': [],
                    },
                ),
                migrations.CreateModel(
                    name='Fact',
                    fields=[
                        ('id', models.BigAutoField(primary_key=True, serialize=False)),
                        ('experiment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='facts', to='experiments.experiment')),
                        ('kind', models.CharField(choices=[('params', 'params'), ('metrics', 'metrics'), ('tags', 'tags'), ('data', 'data')], max_length=10)),
                        ('key', models.CharField(max_length=200)),
                        ('number', models.FloatField(null=True)),
                        ('text', models.TextField()),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('kind', 'key', 'experiment'), name='one_fact_per_key')],
                        'indexes': [],
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
                        'indexes': [],
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
                        'indexes': [],
                    },
                ),
            ],
        ),
        migrations.RunPython(move_content_types),
    ]
