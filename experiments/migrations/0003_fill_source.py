"""Copy what attempts, steps, runs and jobs say into the experiments; rename what the platform could not do for them."""

from django.db import migrations
from django.db.models import Case, Exists, F, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Coalesce

_LIVE = ("preparing", "queued", "running")
_FAILURES = ("read_log", "record_log", "store_outputs", "record_outputs")


def fill(apps, schema_editor):
    experiments = apps.get_model("experiments", "Experiment").objects
    attempts = apps.get_model("flows", "Attempt").objects.filter(pk=OuterRef("attempt_id"))
    steps = apps.get_model("flows", "Step").objects.filter(pk=OuterRef("step_id"))
    runs = apps.get_model("flows", "Run").objects.filter(pk=OuterRef("run_id"))

    def of(rows, field):
        return Subquery(rows.values(field)[:1])

    experiments.update(
        source_kind="attempt",
        source_id=F("attempt_id"),
        job=of(attempts, "job_id"),
        job_name=of(attempts, "job_name"),
        attempt_number=of(attempts, "number"),
        template=of(attempts, "template"),
        state=of(attempts, "state"),
        reason=of(attempts, "reason"),
        started_at=Coalesce(of(attempts, "job__started_at"), of(attempts, "started_at")),
        finished_at=Case(
            When(
                Exists(attempts.filter(finished_at__isnull=False)),
                then=Coalesce(of(attempts, "job__finished_at"), of(attempts, "finished_at")),
            ),
            default=Value(None),
        ),
        is_simulated=Exists(attempts.filter(job__resource__kind="simulated")),
        step_key=of(steps, "key"),
        step_label=of(steps, "label"),
        step_index=of(steps, "index"),
        flow=of(runs, "flow__name"),
        run_number=of(runs, "number"),
        created_by=of(runs, "created_by"),
    )


def fill_unfinished(apps, schema_editor):
    """Copy what the flow says of outputs that are still to be stored, and where jobs are to run that are not there yet."""
    simulated = set(
        apps.get_model("compute", "Resource").objects.filter(kind="simulated").values_list("name", flat=True)
    )
    experiments = apps.get_model("experiments", "Experiment").objects
    unfinished = experiments.filter(Q(artifacts_wanted=True) | Q(state__in=_LIVE)).select_related("run__version")
    for experiment in unfinished.iterator(chunk_size=500):
        for step in experiment.run.version.spec["steps"]:
            if step["name"] == experiment.step_key:
                experiment.output_patterns = list(step.get("outputs", ["**"]))
        experiment.is_simulated = experiment.template.partition(".")[0] in simulated
        experiment.save(update_fields=["output_patterns", "is_simulated"])


def rename_failures(apps, schema_editor):
    failures = apps.get_model("core", "Failure").objects
    for name in _FAILURES:
        failures.filter(kind=f"flows.{name}").update(kind=f"experiments.{name}")


class Migration(migrations.Migration):
    dependencies = [("experiments", "0002_source"), ("core", "0002_failures")]

    operations = [
        migrations.RunPython(fill),
        migrations.RunPython(fill_unfinished),
        migrations.RunPython(rename_failures),
    ]
