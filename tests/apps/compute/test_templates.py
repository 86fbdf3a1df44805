"""Templates are added within bounds, changed and deleted; one from before the bounds stops nobody."""

import pytest
from django.db import connection
from django.db.models import Value
from django.test import Client

from accounts.models import AuditEntry, User
from compute.models import Template
from tests.factories.api import call

SHAPE = {"resource": "scripted", "name": "more", "cpu_millicores": 1000, "memory_bytes": 2**30}


@pytest.fixture
def browser(site_admin) -> Client:
    client = Client()
    client.force_login(User.objects.get(pk=site_admin.user_id))
    return client


@pytest.mark.parametrize("price", [1e50, 1_000_000, "1e50", "NaN", -1, 0.00001])
def test_a_price_that_cannot_be_stored_is_refused(site_admin, template, price):
    answer = call(site_admin, "POST", "/compute/templates", {**SHAPE, "price_per_hour": price})

    assert (answer.status, answer.body["code"]) == (400, "core.malformed_request")
    assert list(Template.objects.values_list("name", flat=True)) == ["small"]


@pytest.mark.skipif(connection.vendor == "postgresql", reason="PostgreSQL holds no such price")
def test_a_template_whose_price_no_longer_may_be_written_is_shown_changed_and_deleted(site_admin, template, browser):
    Template.objects.update(price_per_hour=Value(1e50))

    assert browser.get("/compute/").status_code == 200
    assert call(site_admin, "GET", "/compute/templates").status == 200
    assert call(site_admin, "PATCH", "/compute/templates/scripted.small", {"gpu_milli": 0}).status == 200
    changed = call(site_admin, "PATCH", "/compute/templates/scripted.small", {"price_per_hour": "2.5"})
    assert (changed.status, changed.body["price_per_hour"]) == (200, "2.5000")
    assert call(site_admin, "DELETE", "/compute/templates/scripted.small").status == 204
    assert not Template.objects.exists()


def test_a_change_that_gives_no_cpu_is_refused_and_changes_nothing(site_admin, template):
    answer = call(site_admin, "PATCH", "/compute/templates/scripted.small", {"cpu_millicores": 0, "gpu_milli": 500})

    assert (answer.status, answer.body["code"]) == (400, "compute.invalid_resource")
    assert Template.objects.get().gpu_milli == template.gpu_milli


def test_a_site_admin_deletes_a_template_on_the_page(template, browser):
    answer = browser.post("/compute/scripted/templates/small/delete/")

    assert (answer.status_code, answer["Location"]) == (302, "/compute/")
    assert not Template.objects.exists()
    assert AuditEntry.objects.filter(action="compute.delete_template", target_name="scripted.small").exists()


def test_nobody_else_changes_or_deletes_a_template(member, template):
    assert call(member, "PATCH", "/compute/templates/scripted.small", {"gpu_milli": 500}).status == 403
    assert call(member, "DELETE", "/compute/templates/scripted.small").status == 403
    assert Template.objects.get().gpu_milli == template.gpu_milli
