import core.clock
import datasets.engine.cache_states
import datasets.models.cached_commit
import datasets.models.upload
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Store',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('name', models.CharField(max_length=100, unique=True)),
                ('kind', models.CharField(choices=[('folder', 'folder'), ('s3', 's3')], max_length=10)),
                ('location', models.CharField(max_length=1000)),
                ('credentials', models.BinaryField(default=bytes)),
                ('put_proof', models.CharField(choices=[('payload-sha256', 'payload-sha256'), ('checksum-sha256', 'checksum-sha256'), ('content-md5', 'content-md5'), ('none', 'none')], max_length=20)),
                ('is_default', models.BooleanField(default=False)),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('is_default', True)), fields=('is_default',), name='one_default_store')],
            },
        ),
        migrations.CreateModel(
            name='CacheSite',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('name', models.CharField(max_length=63, unique=True)),
                ('kind', models.CharField(choices=[('folder', 'folder')], default=datasets.models.cached_commit.CacheSiteKind['FOLDER'], max_length=10)),
                ('root', models.CharField(max_length=1000)),
                ('capacity_bytes', models.BigIntegerField()),
                ('idle_days', models.FloatField(default=1)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('capacity_bytes__gte', 0), ('idle_days__gte', 0)), name='sane_site')],
            },
        ),
        migrations.CreateModel(
            name='Dataset',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='datasets', to='accounts.project')),
                ('name', models.CharField(max_length=63)),
                ('description', models.CharField(blank=True, max_length=2000)),
                ('kind', models.CharField(default='general', max_length=30)),
                ('default_branch', models.CharField(default='main', max_length=100)),
                ('store', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='datasets', to='datasets.store')),
                ('idle_days', models.FloatField(null=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('deleted_at', models.DateTimeField(null=True)),
                ('purged_at', models.DateTimeField(null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('deleted_at__isnull', True)), fields=('project', 'name'), name='one_dataset_per_name'), models.CheckConstraint(condition=models.Q(('idle_days__isnull', True), ('idle_days__gte', 0), _connector='OR'), name='sane_idle_days')],
            },
        ),
        migrations.CreateModel(
            name='Commit',
            fields=[
                ('id', models.CharField(editable=False, max_length=64, primary_key=True, serialize=False)),
                ('dataset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='commits', to='datasets.dataset')),
                ('parent', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='children', to='datasets.commit')),
                ('root', models.CharField(max_length=64)),
                ('message', models.TextField(blank=True)),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('author_name', models.CharField(max_length=200)),
                ('source', models.CharField(choices=[('cli', 'cli'), ('sdk', 'sdk'), ('web', 'web'), ('revert', 'revert'), ('flow', 'flow')], max_length=10)),
                ('idempotency_key', models.CharField(blank=True, max_length=100)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('files', models.BigIntegerField()),
                ('size_bytes', models.BigIntegerField()),
                ('added', models.BigIntegerField()),
                ('removed', models.BigIntegerField()),
                ('changed', models.BigIntegerField()),
            ],
            options={
                'indexes': [models.Index(fields=['dataset', 'root'], name='commit_by_root')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('idempotency_key', ''), _negated=True), fields=('dataset', 'idempotency_key'), name='one_commit_per_idempotency_key')],
            },
        ),
        migrations.CreateModel(
            name='Pack',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('dataset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='packs', to='datasets.dataset')),
                ('sha256', models.CharField(max_length=64)),
                ('size_bytes', models.BigIntegerField()),
                ('state', models.CharField(choices=[('pending', 'pending'), ('complete', 'complete'), ('condemned', 'condemned'), ('deleting', 'deleting')], default=datasets.models.upload.PackState['PENDING'], max_length=10)),
                ('touched_at', models.DateTimeField(default=core.clock.now)),
                ('due_at', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['state', 'due_at'], name='pack_by_due_time')],
                'constraints': [models.UniqueConstraint(fields=('dataset', 'sha256'), name='one_pack_per_hash')],
            },
        ),
        migrations.CreateModel(
            name='Branch',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('dataset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='branches', to='datasets.dataset')),
                ('name', models.CharField(max_length=100)),
                ('head', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='branches', to='datasets.commit')),
                ('updated_at', models.DateTimeField(default=core.clock.now)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('dataset', 'name'), name='one_branch_per_name')],
            },
        ),
        migrations.CreateModel(
            name='Tag',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('dataset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tags', to='datasets.dataset')),
                ('name', models.CharField(max_length=100)),
                ('commit', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='tags', to='datasets.commit')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('dataset', 'name'), name='one_tag_per_name')],
            },
        ),
        migrations.CreateModel(
            name='CachedCommit',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='cached_commits', to='datasets.cachesite')),
                ('dataset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cached_commits', to='datasets.dataset')),
                ('commit', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cached_commits', to='datasets.commit')),
                ('state', models.CharField(choices=[('queued', 'queued'), ('provisioning', 'provisioning'), ('hydrating', 'hydrating'), ('ready', 'ready'), ('evicting', 'evicting'), ('gone', 'gone'), ('failed', 'failed')], default=datasets.engine.cache_states.CacheState['QUEUED'], max_length=12)),
                ('location', models.CharField(max_length=300)),
                ('base', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='datasets.cachedcommit')),
                ('requested_by', models.CharField(max_length=200)),
                ('waits_for', models.CharField(blank=True, max_length=300)),
                ('files_total', models.BigIntegerField()),
                ('bytes_total', models.BigIntegerField()),
                ('files_done', models.BigIntegerField(default=0)),
                ('bytes_done', models.BigIntegerField(default=0)),
                ('bytes_moved', models.BigIntegerField(default=0)),
                ('bytes_shared', models.BigIntegerField(default=0)),
                ('rate_bytes_s', models.FloatField(null=True)),
                ('reserved_bytes', models.BigIntegerField()),
                ('is_pinned', models.BooleanField(default=False)),
                ('last_used_at', models.DateTimeField(default=core.clock.now)),
                ('last_used_by', models.CharField(blank=True, max_length=200)),
                ('ready_at', models.DateTimeField(null=True)),
                ('settled_ns', models.BigIntegerField(null=True)),
                ('scrubbed_at', models.DateTimeField(null=True)),
                ('scrub_requested_at', models.DateTimeField(null=True)),
                ('is_weighed', models.BooleanField(default=False)),
                ('lease_token', models.CharField(blank=True, max_length=32)),
                ('lease_expires_at', models.DateTimeField(null=True)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('error_code', models.CharField(blank=True, max_length=100)),
                ('error', models.TextField(blank=True)),
                ('error_hint', models.TextField(blank=True)),
            ],
            options={
                'indexes': [models.Index(fields=['site', 'state'], name='cached_commit_by_state')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state__in', [datasets.engine.cache_states.CacheState['FAILED'], datasets.engine.cache_states.CacheState['HYDRATING'], datasets.engine.cache_states.CacheState['PROVISIONING'], datasets.engine.cache_states.CacheState['QUEUED'], datasets.engine.cache_states.CacheState['READY']])), fields=('site', 'commit'), name='one_current_copy_per_site')],
            },
        ),
        migrations.CreateModel(
            name='ManifestRange',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('dataset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='ranges', to='datasets.dataset')),
                ('range_id', models.CharField(max_length=64)),
                ('first_path', models.BinaryField()),
                ('last_path', models.BinaryField()),
                ('files', models.BigIntegerField()),
                ('size_bytes', models.BigIntegerField()),
                ('names', models.BinaryField(default=bytes)),
                ('is_committed', models.BooleanField(default=False)),
                ('packs', models.ManyToManyField(related_name='ranges', to='datasets.pack')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('dataset', 'range_id'), name='one_range_per_hash')],
            },
        ),
        migrations.CreateModel(
            name='UploadSession',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('dataset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='uploads', to='datasets.dataset')),
                ('branch', models.CharField(max_length=100)),
                ('client_id', models.CharField(max_length=200)),
                ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
                ('state', models.CharField(choices=[('open', 'open'), ('committed', 'committed'), ('cancelled', 'cancelled'), ('expired', 'expired')], default=datasets.models.upload.UploadState['OPEN'], max_length=10)),
                ('commit', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to='datasets.commit')),
                ('expires_at', models.DateTimeField(default=core.clock.now)),
            ],
            options={
                'indexes': [models.Index(fields=['state', 'expires_at'], name='upload_by_expiry')],
            },
        ),
        migrations.CreateModel(
            name='CacheHold',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('cached_commit', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='holds', to='datasets.cachedcommit')),
                ('holder', models.CharField(db_index=True, max_length=100)),
                ('why', models.CharField(max_length=200)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('cached_commit', 'holder'), name='one_hold_per_holder')],
            },
        ),
        migrations.CreateModel(
            name='CachedCommitEvent',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('cached_commit', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='datasets.cachedcommit')),
                ('kind', models.CharField(choices=[('state', 'state'), ('taken_over', 'taken_over'), ('damaged', 'damaged'), ('healed', 'healed'), ('not_healed', 'not_healed')], max_length=12)),
                ('state', models.CharField(choices=[('queued', 'queued'), ('provisioning', 'provisioning'), ('hydrating', 'hydrating'), ('ready', 'ready'), ('evicting', 'evicting'), ('gone', 'gone'), ('failed', 'failed')], max_length=12)),
                ('message', models.TextField(blank=True)),
                ('facts', models.JSONField(default=dict)),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='UploadPart',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('upload', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='parts', to='datasets.uploadsession')),
                ('number', models.PositiveIntegerField()),
                ('files', models.IntegerField()),
                ('size_bytes', models.BigIntegerField()),
                ('is_complete', models.BooleanField()),
                ('entries', models.BinaryField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('upload', 'number'), name='one_upload_part_per_number')],
            },
        ),
    ]
