"""What a prepared query returns is what the query itself returns, whatever is asked for first."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, transaction
from django.db.models import Count, DateTimeField, Exists, F, OuterRef, QuerySet, Value

from compute.models import Job, Resource, Template
from core import clock, orm
from core.prepared import Repeated, insert, prepared

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def templates() -> list[Template]:
    lab, farm = (Resource.objects.create(name=name, kind="simulated", config={"of": name}) for name in ("lab", "farm"))
    lab.last_contact_at, farm.last_contact_at = NOON, NOON + timedelta(hours=1)
    for resource in (lab, farm):
        resource.save()
    sizes = {"small": 1000, "large": 8000}
    return [
        Template.objects.create(resource=resource, name=name, cpu_millicores=cpu, memory_bytes=2**30)
        for resource in (lab, farm)
        for name, cpu in sizes.items()
    ]


@prepared
def of_resource(name: str) -> QuerySet[Template]:
    return Template.objects.filter(resource__name=name).select_related("resource").order_by("pk")


@prepared
def in_contact(since: datetime) -> QuerySet[Resource, str]:
    return Resource.objects.filter(last_contact_at__gte=since).order_by("name").values_list("name", flat=True)


@prepared
def as_large_as(cpu_millicores: int, names: Collection[str]) -> QuerySet[Template, tuple[str, str]]:
    rows = Template.objects.filter(cpu_millicores__gte=cpu_millicores, name__in=names)
    return rows.order_by("resource__name", "name").values_list("resource__name", "name")


def test_rows_come_with_their_related_ones_and_every_call_gets_its_own(templates, django_assert_num_queries):
    with django_assert_num_queries(2):
        lab, farm = of_resource("lab"), of_resource("farm")

        assert (lab, farm) == (templates[:2], templates[2:])
        assert [(row.resource.name, row.resource.config) for row in lab] == [("lab", {"of": "lab"})] * 2
        assert [row.full_name for row in farm] == ["farm.small", "farm.large"]


def test_a_repeated_query_is_made_once_and_asks_about_the_present_each_time(templates):
    made = []

    def lately() -> QuerySet[Resource, str]:
        made.append(clock.now())
        recent = Resource.objects.filter(last_contact_at__gt=clock.now() - timedelta(minutes=30), created_at__gt=NOON)
        return recent.order_by("name").values_list("name", flat=True)

    ask = Repeated(lately)
    with clock.frozen_at(NOON) as move:
        answers = []
        for minutes in (0, 45, 120):
            move(NOON + timedelta(minutes=minutes))
            answers.append(ask())

    assert answers == [["farm", "lab"], ["farm"], []]
    assert len(made) == 1


def test_a_row_that_was_changed_is_read_anew(templates):
    of_resource("lab")
    Template.objects.filter(pk=templates[0].pk).update(memory_bytes=1)

    assert [row.memory_bytes for row in of_resource("lab")] == [1, 2**30]


def test_columns_that_were_left_out_are_read_when_they_are_asked_for(templates):
    named = prepared(lambda name: Template.objects.filter(name=name).only("name").order_by("pk"))

    assert named("small")[0].cpu_millicores == 1000


@pytest.mark.usefixtures("templates")
def test_moments_numbers_and_collections_are_put_in_their_places():
    assert in_contact(NOON) == ["farm", "lab"]
    assert in_contact(NOON + timedelta(seconds=1)) == ["farm"]
    assert as_large_as(1000, ["small", "large"]) == [
        *(("farm", "large"), ("farm", "small")),
        *(("lab", "large"), ("lab", "small")),
    ]
    assert as_large_as(1001, {"small", "large", "none"}) == [("farm", "large"), ("lab", "large")]
    assert as_large_as(1000, ("large",)) == [("farm", "large"), ("lab", "large")]
    assert as_large_as(1000, []) == []


@pytest.mark.usefixtures("templates")
def test_none_and_truth_values_are_part_of_the_query():
    contacted = prepared(
        lambda at, simulated: Resource.objects.filter(last_contact_at=at, is_simulated=simulated).order_by("name")
    )

    assert [row.name for row in contacted(NOON, False)] == ["lab"]
    assert contacted(None, False) == contacted(NOON, True) == []
    Resource.objects.update(last_contact_at=None)
    assert [row.name for row in contacted(None, False)] == ["farm", "lab"]


def test_a_question_beside_columns_is_answered(templates):
    has_jobs = Exists(Job.objects.filter(template=OuterRef("pk")))
    asked = prepared(lambda name: Template.objects.filter(name=name).order_by("pk").values_list("pk", has_jobs))

    assert asked("small") == [(templates[0].pk, False), (templates[2].pk, False)]


def test_a_column_may_be_changed_to_what_the_query_says():
    farm = Resource.objects.create(name="farm", kind="simulated", last_contact_at=NOON)
    at_least = prepared(
        lambda name, moment: Resource.objects.filter(name=name).annotate(
            at=orm.earliest(F("last_contact_at"), Value(moment, output_field=DateTimeField()))
        )
    )

    for moment, expected in ((NOON + timedelta(1), NOON), (None, NOON), (NOON - timedelta(1), NOON - timedelta(1))):
        assert at_least.update({"last_contact_at": F("at"), "error": str(moment)}, "farm", moment) == 1
        farm.refresh_from_db()
        assert (farm.last_contact_at, farm.error) == (expected, str(moment))

    assert at_least.update({"error": "a column of the query is left out"}, "farm", NOON) == 1

    Resource.objects.update(last_contact_at=None)
    at_least.update({"last_contact_at": F("at")}, "farm", None)
    farm.refresh_from_db()
    assert farm.last_contact_at is None


def test_rows_are_changed_and_counted_and_a_value_may_be_none_or_json(templates):
    assert of_named.update({"labels": {"zone": "a"}, "price_per_hour": 2}, "small") == 2
    assert of_named.update({"labels": {}, "price_per_hour": None}, "large") == 2
    assert of_named.update({"labels": {"zone": "b"}, "price_per_hour": None}, "small") == 2
    assert of_named.update({"memory_bytes": F("memory_bytes") + 1}, "small") == 2
    assert of_named.update({"labels": {}}, "none") == 0

    rows = Template.objects.order_by("pk").values_list("labels", "price_per_hour", "memory_bytes")
    assert list(rows) == [({"zone": "b"}, None, 2**30 + 1), ({}, None, 2**30)] * 2
    assert templates


@prepared
def of_named(name: str) -> QuerySet[Template]:
    return Template.objects.filter(name=name)


def test_an_argument_that_is_changed_on_its_way_is_refused():
    shouted = prepared(lambda name: Resource.objects.filter(name=name.upper()))
    later = prepared(lambda moment: Resource.objects.filter(last_contact_at=moment + timedelta(hours=1)))
    part = prepared(lambda name: Resource.objects.filter(name__contains=name))

    for query, argument in ((shouted, "lab"), (later, NOON), (part, "la")):
        with pytest.raises(TypeError, match="does not pass on"):
            query(argument)


def test_counts_and_rows_by_name_are_read_too(templates):
    counted = prepared(lambda name: Resource.objects.filter(name=name).annotate(count=Count("templates")))
    as_dicts = prepared(lambda name: Resource.objects.filter(name=name).values("name", "is_simulated"))

    assert [row.count for row in counted("lab")] == [2]
    assert as_dicts("farm") == [{"name": "farm", "is_simulated": False}]
    assert templates


def test_what_cannot_be_prepared_is_refused(templates):
    prefetched = prepared(lambda name: Resource.objects.filter(name=name).prefetch_related("templates"))

    with pytest.raises(TypeError, match="statements of their own"):
        prefetched("lab")
    with pytest.raises(TypeError, match="takes no Resource"):
        of_resource(templates[0].resource)
    with pytest.raises(TypeError, match="texts only"):
        as_large_as(1, [1])
    with pytest.raises(TypeError, match="positions"):
        of_resource(name="lab")


@pytest.mark.parametrize("count", [1, 2, 20])
def test_rows_are_inserted_as_they_are_also_beside_those_that_exist(templates, count):
    resource = templates[0].resource
    first, *others = (
        Template(resource=resource, name=f"t{n}", cpu_millicores=n, memory_bytes=n, labels={"n": n})
        for n in range(count)
    )
    insert([first])
    insert(others)
    insert([])

    again = [Template(resource=resource, name=f"t{n}", cpu_millicores=9, memory_bytes=9) for n in range(count)]
    insert(again, ignore_conflicts=True)

    rows = Template.objects.filter(name__startswith="t").order_by("pk")
    assert list(rows) == [first, *others]
    assert [(row.cpu_millicores, row.labels, row.price_per_hour) for row in rows] == [
        (n, {"n": n}, None) for n in range(count)
    ]
    first.save()
    assert rows.count() == count


@pytest.mark.parametrize("count", [2, 50])
def test_a_row_that_exists_gets_the_columns_that_are_named_and_others_are_inserted(templates, count):
    known = templates[0]
    known.cpu_millicores, known.memory_bytes = 7, 7
    new = [Template(resource=known.resource, name=f"t{n}", cpu_millicores=n, memory_bytes=n) for n in range(count)]

    insert([known, *new], update=["cpu_millicores"])

    known.refresh_from_db()
    assert (known.cpu_millicores, known.memory_bytes) == (7, 2**30)
    assert list(Template.objects.filter(name__startswith="t").order_by("cpu_millicores")) == new


def test_a_row_that_exists_is_refused_and_no_row_of_the_call_is_inserted(templates):
    fresh = Template(resource=templates[0].resource, name="fresh", cpu_millicores=1, memory_bytes=1)
    twin = Template(resource=templates[0].resource, name="small", cpu_millicores=1, memory_bytes=1)

    with pytest.raises(IntegrityError), transaction.atomic():
        insert([fresh, twin])

    assert Template.objects.count() == len(templates)


def test_rows_are_changed_and_returned_as_they_are_then(templates):
    with_jobs = prepared(
        lambda name: Template.objects.filter(name=name).annotate(
            has_jobs=Exists(Job.objects.filter(template=OuterRef("pk")))
        )
    )
    columns = ("pk", "memory_bytes", "labels", "resource_id", "has_jobs")

    for more in (1, 2):
        changes = {"memory_bytes": F("memory_bytes") + 1, "labels": {"zone": more}}
        rows = with_jobs.update_returning(changes, columns, "small")
        assert sorted(rows) == [
            (each.pk, 2**30 + more, {"zone": more}, each.resource_id, False) for each in (templates[0], templates[2])
        ]

    assert with_jobs.update_returning({"labels": {}}, ("pk",), "none") == []


def test_a_moment_is_returned_as_one():
    Resource.objects.create(name="farm", kind="simulated")
    named = prepared(lambda name: Resource.objects.filter(name=name))

    assert named.update_returning({"last_contact_at": NOON}, ("last_contact_at",), "farm") == [(NOON,)]


def test_rows_are_deleted_and_counted(templates):
    assert of_named.delete("small") == 2
    assert of_named.delete("small") == 0

    assert list(Template.objects.order_by("pk")) == [templates[1], templates[3]]


def test_few_rows_say_how_many_of_them_are_new(templates):
    fresh = [Template(resource=templates[0].resource, name=f"t{n}", cpu_millicores=1, memory_bytes=1) for n in (1, 2)]
    twin = Template(resource=templates[0].resource, name="small", cpu_millicores=1, memory_bytes=1)

    assert insert([*fresh, twin], ignore_conflicts=True) == 2
    assert insert([twin], ignore_conflicts=True) == 0
