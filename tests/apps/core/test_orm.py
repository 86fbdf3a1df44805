"""What does not fit its column is refused when it is saved, on every database alike."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.apps import apps
from django.db import models

from accounts.models import Project
from compute.models import Job, Resource, Template
from core import clock, orm
from core.bounds import OutOfBounds
from datasets.models import Dataset

pytestmark = pytest.mark.django_db


@pytest.fixture
def template() -> Template:
    resource = Resource.objects.create(name="lab", kind="simulated")
    return Template.objects.create(resource=resource, name="small", cpu_millicores=1000, memory_bytes=2**30)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "a" * 64),
        ("name", "a\0"),
        ("name", "\ud800"),
        ("cpu_millicores", 2**63),
        ("cpu_millicores", -1),
        ("price_per_hour", Decimal(1000000)),
        ("price_per_hour", Decimal("NaN")),
        ("labels", {"zone": "\ud800"}),
        ("labels", {"zone": float("inf")}),
    ],
)
def test_a_value_that_its_column_cannot_hold_is_refused_and_nothing_is_changed(template, field, value):
    before = Template.objects.values().get()
    setattr(template, field, value)

    with pytest.raises(OutOfBounds) as refusal:
        template.save()

    assert refusal.value.details == {"field": field}
    assert Template.objects.values().get() == before


def test_a_row_that_is_made_is_looked_at_too(template):
    with pytest.raises(OutOfBounds):
        Template.objects.create(resource=template.resource, name="a" * 64, cpu_millicores=1, memory_bytes=1)

    assert Template.objects.count() == 1


def test_a_moment_before_1970_is_refused(template):
    template.resource.last_contact_at = datetime(1, 1, 1, tzinfo=UTC)

    with pytest.raises(OutOfBounds):
        template.resource.save()


def test_a_field_that_is_not_saved_is_not_looked_at(template):
    """So that a row whose value nobody may write any more can still be changed otherwise."""
    template.price_per_hour, template.gpu_milli = Decimal("1e50"), 500

    template.save(update_fields=["gpu_milli"])

    assert Template.objects.get().gpu_milli == 500


def test_numbers_of_32_bits_are_no_longer_than_that(template):
    with pytest.raises(OutOfBounds):
        Job(resource=template.resource, event_seq=2**31).save(update_fields=["event_seq"])


def test_items_come_in_batches_that_one_statement_can_carry():
    batches = list(orm.in_batches(range(1001)))

    assert [len(batch) for batch in batches] == [500, 500, 1]
    assert [item for batch in batches for item in batch] == list(range(1001))
    assert list(orm.in_batches([])) == []


def django_columns(model):
    """Return the columns of a new row as Django itself fills them."""
    row = model.__new__(model)
    models.Model.__init__(row)
    return row.__dict__


@pytest.mark.parametrize("model", [each for each in apps.get_models() if issubclass(each, orm.BaseModel)])
def test_a_new_row_has_the_columns_that_django_gives_it(model):
    own = {"_state", "id", "token"}  # each row has others

    with clock.frozen_at(clock.now()):
        row, expected = model().__dict__, django_columns(model)

    assert row.keys() == expected.keys()
    assert {name: row[name] for name in row.keys() - own} == {name: expected[name] for name in expected.keys() - own}


def test_a_new_row_takes_related_rows_and_their_ids_and_no_other_names():
    project = Project(name="p")

    by_row, by_id = Dataset(project=project, name="d"), Dataset(project_id=project.pk, name="d", pk="ds_1")

    assert by_row.project is project
    assert (by_row.project_id, by_id.project_id, by_id.id) == (project.pk, project.pk, "ds_1")
    with pytest.raises(TypeError, match="nmae"):
        Dataset(nmae="d")
