"""What jobs hold of cached commits is held by their ids, no longer by their names."""

from django.db import migrations

_HOLDER = "job:"


def rename_holders(apps, schema_editor):
    """Give what jobs hold their ids; what belongs to no job is released by its age, as before."""
    holds = apps.get_model("datasets", "CacheHold").objects.filter(holder__startswith=_HOLDER)
    job = apps.get_model("compute", "Job")
    for name in sorted({holder.removeprefix(_HOLDER) for holder in holds.values_list("holder", flat=True)}):
        for job_id in job.objects.filter(name=name).values_list("pk", flat=True):
            holds.filter(holder=_HOLDER + name).update(holder=_HOLDER + job_id)


class Migration(migrations.Migration):

    dependencies = [
        ("compute", "0020_grace_period"),
        ("datasets", "0008_copies_for_holders"),
    ]

    operations = [migrations.RunPython(rename_holders, migrations.RunPython.noop)]
