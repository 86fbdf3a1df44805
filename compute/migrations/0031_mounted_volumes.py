"""Which claims jobs mount is a table, so that the readers of one are found without the specs of all others."""

import core.clock
import django.db.models.deletion
from django.db import migrations, models

from core import clock, ids


def note_volumes(apps, schema_editor):
    """Note the claims of the jobs whose files are there still."""
    volume = apps.get_model("compute", "JobVolume")
    jobs = apps.get_model("compute", "Job").objects.filter(files_deleted_at=None, resource__kind="kubernetes")
    for job_id, spec in jobs.values_list("pk", "spec").iterator():
        sources = [mount["source"] for mount in spec.get("data") or ()]
        for claim in {source["claim"] for source in sources if source["kind"] == "volume"}:
            volume.objects.create(job_id=job_id, claim=claim, id=ids.new_id("jvol", now_ms=clock.now_ms()))


class Migration(migrations.Migration):

    dependencies = [
        ('compute', '0030_retries_of_jobs'),
    ]

    operations = [
        migrations.CreateModel(
            name='JobVolume',
            fields=[
                ('id', models.CharField(editable=False, max_length=32, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_index=True, default=core.clock.now, editable=False)),
                ('claim', models.CharField(max_length=253)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='mounted_volumes', to='compute.job')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('claim', 'job'), name='one_volume_per_claim_and_job')],
            },
        ),
        migrations.RunPython(note_volumes, migrations.RunPython.noop),
    ]
