"""No app's query reaches into another app's tables: it asks that app's selectors."""

from pathlib import Path

from django.apps import apps

from tests.architecture.borders import find_crossings

ROOT = Path(__file__).resolve().parents[2]
APPS = [name for name in ("datasets", "scheduler", "compute", "flows", "experiments") if (ROOT / name).is_dir()]
# Where paths still cross, by the name of the module: this list only gets shorter.
# A job's page and lists show why its workload is pending.
KNOWN = {"compute/selectors/jobs.py": ["workload__answer", "workload__answer"]}


def relations_of(app: str) -> set[str]:
    """Return the names of all relations, forwards and backwards, from the models of an app to those of another."""
    return {
        field.name
        for model in apps.get_app_config(app).get_models()
        for field in model._meta.get_fields()
        if field.related_model is not None
        and field.related_model._meta.app_label != app
        and field.related_model._meta.app_label in APPS
    }


def crossings() -> dict[str, list[str]]:
    found = {}
    for app in APPS:
        relations = relations_of(app)
        for path in sorted((ROOT / app).rglob("*.py")):
            if "migrations" not in path.parts and (paths := find_crossings(path.read_text(), relations)):
                found[path.relative_to(ROOT).as_posix()] = paths
    return found


def test_relations_between_apps_are_found():
    assert "job" in relations_of("flows")
    assert "workload" in relations_of("compute")


def test_no_query_reaches_into_the_tables_of_another_app():
    assert crossings() == KNOWN


def test_a_planted_path_is_found_however_it_is_written():
    for line in (
        'rows.filter(job__state="failed")',
        'rows.exclude(attempt__job__resource__kind="simulated")',
        'rows.values_list("job__workload__answer__advice")',
        'rows.order_by("-job__started_at")',
        'rows.select_related("job")',
        'rows.prefetch_related("attempt__job")',
        'rows.update(started_at=Subquery(of_job.values("job__started_at")))',
    ):
        assert len(find_crossings(line, {"job"})) == 1, line


def test_a_path_that_ends_at_the_key_is_allowed():
    for line in (
        "rows.filter(job__in=job_ids)",
        "rows.filter(job__isnull=False)",
        'rows.values_list("step__key", "job")',
        'rows.select_related("experiment")',
        'rows.filter(step__state="failed")',
    ):
        assert find_crossings(line, {"job"}) == [], line
