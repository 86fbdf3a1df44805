"""Templates are added within bounds, changed and deleted; one from before the bounds stops nobody."""

import pytest
from django.db import connection
from django.db.models import Value
from django.test import Client

from accounts.models import AuditEntry
from compute.models import Resource, Template
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.markup import read_form

SHAPE = {"resource": "scripted", "name": "more", "cpu_millicores": 1000, "memory_bytes": 2**30}


@pytest.fixture
def browser(site_admin) -> Client:
    return browser_of(site_admin)


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


POD = {
    "node_selector": {"pool": "train"},
    "tolerations": ["gpu=only:NoSchedule", "spot"],
    "priority_class": "batch",
    "image_pull_secrets": ["registry"],
}
FIELDS = {
    "name": "gpu",
    "cpu": "1",
    "memory": "1 GiB",
    "gpus": "1",
    "node_selector": "pool=train",
    "tolerations": "gpu=only:NoSchedule, spot",
    "priority_class": "batch",
    "image_pull_secrets": "registry",
}


@pytest.fixture
def cluster(resource):
    Resource.objects.filter(pk=resource.pk).update(kind="kubernetes", config={"node_selector": {"zone": "a"}})
    return resource


def test_a_template_says_what_the_pods_of_its_jobs_have(site_admin, cluster, browser):
    created = call(site_admin, "POST", "/compute/templates", {**SHAPE, "pod": POD})
    browser.post("/compute/scripted/templates/", FIELDS)

    assert (created.status, created.body["pod"]) == (201, POD)
    assert Template.objects.get(name="gpu").pod == POD
    changed = call(site_admin, "PATCH", "/compute/templates/scripted.gpu", {"pod": {"tolerations": ["spot"]}})
    assert (changed.status, Template.objects.get(name="gpu").pod) == (200, {"tolerations": ["spot"]})


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ({"node_selector": {"pool train": "a"}}, "'pool train=a' is no label of a node"),
        ({"node_selector": {"zone": "b"}}, "All pods of scripted run on nodes with zone=a, none with zone=b."),
        ({"tolerations": ["gpu:Never"]}, "'gpu:Never' is no toleration"),
        ({"priority_class": "Batch"}, "'Batch' cannot be the name of a priority class"),
        ({"image_pull_secrets": [""]}, "'' cannot be the name of a Secret"),
    ],
)
def test_what_no_pod_could_have_is_refused(site_admin, cluster, pod, words):
    answer = call(site_admin, "POST", "/compute/templates", {**SHAPE, "pod": pod})

    assert (answer.status, answer.body["code"], words in answer.body["title"]) == (
        400,
        "compute.invalid_resource",
        True,
    )


@pytest.mark.usefixtures("template")
@pytest.mark.parametrize(
    ("field", "typed", "words"),
    [
        ("name", "small", "scripted has a template called 'small' already. Choose another name."),
        ("cpu", "0", "Ensure this value is greater than or equal to 0.001."),
        ("memory", "much", "'much' is not a size. Write it like 512Mi, 4GB or 1000000."),
        ("memory", "0 GiB", "A template gives some memory: 16 GiB."),
        ("gpus", "1.5", "More than one GPU must be whole ones."),
        ("node_selector", "train", "'train' is no label of a node; write one like pool=train."),
        ("node_selector", "zone=b", "All pods of scripted run on nodes with zone=a, none with zone=b."),
        (
            "tolerations",
            "gpu:Never",
            "'gpu:Never' is no toleration; write one like gpu=only:NoSchedule, gpu=only or gpu.",
        ),
        (
            "image_pull_secrets",
            "Registry",
            "'Registry' cannot be the name of a Secret: use small letters, digits, '-' and '.'.",
        ),
    ],
)
def test_a_refused_template_stands_in_its_dialog_with_the_reason_at_its_field(browser, cluster, field, typed, words):
    address = "/compute/scripted/templates/"

    answer = browser.post(address, FIELDS | {field: typed})

    page = answer.content.decode()
    assert (answer.status_code, Template.objects.count()) == (422, 1)
    assert f'<dialog id="template-{cluster.pk}" data-opens-now' in page
    assert read_form(page, address) == (FIELDS | {field: typed}, {field: words})
    assert f'id="template-{cluster.pk}-{field}_error"' in page  # by which the field names what describes it


def test_jobs_that_are_no_pods_have_no_such_options(site_admin, resource):
    answer = call(site_admin, "POST", "/compute/templates", {**SHAPE, "pod": {"priority_class": "batch"}})

    assert (answer.status, answer.body["title"]) == (400, "scripted is no cluster: its jobs are no pods.")


def test_a_site_admin_deletes_a_template_on_the_page(template, browser):
    answer = browser.post("/compute/scripted/templates/small/delete/")

    assert (answer.status_code, answer["Location"]) == (302, "/compute/")
    assert not Template.objects.exists()
    assert AuditEntry.objects.filter(action="compute.delete_template", target_name="scripted.small").exists()


def test_nobody_else_changes_or_deletes_a_template(member, template):
    assert call(member, "PATCH", "/compute/templates/scripted.small", {"gpu_milli": 500}).status == 403
    assert call(member, "DELETE", "/compute/templates/scripted.small").status == 403
    assert Template.objects.get().gpu_milli == template.gpu_milli
