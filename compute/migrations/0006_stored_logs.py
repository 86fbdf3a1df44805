"""Logs lie in the store of their project. Those that can still be read from their resources are stored by and by."""

from typing import Any

import core.clock
import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F, Q


def leave_out_what_has_no_log(apps: Any, _schema: Any) -> None:
    """Note for jobs that never ran, and for those whose files are deleted, that there is nothing to store."""
    ended = apps.get_model("compute", "Job").objects.filter(finished_at__isnull=False)
    ended.filter(Q(files_deleted_at__isnull=False) | Q(starts=0, evictions=0)).update(log_stored_at=F("finished_at"))


class Migration(migrations.Migration):
    dependencies = [("compute", "0005_is_live")]
    operations = [
        migrations.CreateModel(
            name='StoredLogChunk',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('offset', models.PositiveBigIntegerField()),
                ('size_bytes', models.PositiveIntegerField()),
                ('dataset_id', models.CharField(max_length=32)),
                ('root', models.CharField(max_length=64)),
                ('ends_line', models.BooleanField()),
                ('index', models.BinaryField()),
            ],
        ),
        migrations.AddField(
            model_name='job',
            name='log_bytes',
            field=models.PositiveBigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='job',
            name='log_stored_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('log_stored_at', None)), fields=['state'], name='jobs_with_unstored_log'),
        ),
        migrations.AddField(
            model_name='storedlogchunk',
            name='job',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='log_chunks', to='compute.job'),
        ),
        migrations.AddConstraint(
            model_name='storedlogchunk',
            constraint=models.UniqueConstraint(fields=('job', 'offset'), name='one_log_chunk_per_offset'),
        ),
        migrations.RunPython(leave_out_what_has_no_log, migrations.RunPython.noop),
    ]
