"""Each workload has the one pod that it always was, and each placement what that pod holds."""

from django.db import migrations
from django.db.models import F, IntegerField, OuterRef, Subquery, TextField, Value
from django.db.models.functions import Cast, JSONArray, JSONObject


def describe_pods(apps, schema_editor):
    workloads = apps.get_model("scheduler", "Workload").objects
    one, none = Cast(Value(1), IntegerField()), Cast(Value(0), IntegerField())
    pod = JSONObject(
        name=Cast(Value(""), TextField()),
        count=one,
        min_count=one,
        cpu_millicores=F("cpu_millicores"),
        memory_bytes=F("memory_bytes"),
        gpu_milli=F("gpu_milli"),
        gpu_memory_bytes=none,
        node_labels=JSONArray(),
    )
    workloads.update(pod_sets=JSONArray(pod))
    workload = workloads.filter(pk=OuterRef("workload_id"))
    apps.get_model("scheduler", "Placement").objects.update(
        cpu_millicores=Subquery(workload.values("cpu_millicores")), memory_bytes=Subquery(workload.values("memory_bytes"))
    )


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0007_pools_and_pods")]

    operations = [migrations.RunPython(describe_pods, migrations.RunPython.noop)]
