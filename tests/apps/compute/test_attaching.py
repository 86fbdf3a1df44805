"""The pages by which an admin attaches a resource and replaces its credentials."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from django import forms
from django.test import Client

from accounts.models import AuditEntry
from accounts.permissions import Actor
from compute.adapters import drivers
from compute.adapters.kinds import ConfigForm, OwnSite, ResourceKind, SecretField
from compute.adapters.scripted import ScriptedDriver
from compute.engine.ports import ClusterFacts, NodeFacts
from compute.errors import InvalidResource, OtherCluster, ResourceChanged, ResourceNotFound
from compute.models import Resource, ResourceSite
from compute.selectors import resources as resource_selectors
from compute.services import resources
from compute.workers import probes
from core import clock
from datasets.services import cache_sites
from tests.contracts.cache_site import new_row
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.factories.clusters import STORAGE_CLASS, lab
from tests.factories.datasets import commit_files, make_dataset, make_store
from tests.markup import flat

pytestmark = pytest.mark.django_db
LAB = {
    "name": "dgx", "kind": "simulated", "nodes": "1", "cpu": "1", "memory": "1 GB", "gpus": "0", "gpu_memory": "0"
}  # fmt: skip
VAULT = {"name": "vault-1", "kind": "vault", "region": "north", "key": "key-1"}
DECLARED = {"size_bytes": 10**12, "rate_bytes_s": 10**9}


@dataclass
class Vault:
    """Keys that the resources of a kind take now, and what somebody else does while one is asked."""

    keys: set[str]
    meanwhile: Callable[[], object] = list
    lacks: tuple[str, ...] = ()
    id: str = "cluster-1"
    namespace: str = "jobs"
    site: OwnSite | None = None


class VaultDriver(ScriptedDriver):
    """A driver that tells of its resource what is told of a cluster."""

    def __init__(self, vault, *options) -> None:
        super().__init__(*options)
        self.vault = vault

    def describe(self):
        return ClusterFacts("v1", id=self.vault.id, namespace=self.vault.namespace, lacks=self.vault.lacks)


class VaultForm(ConfigForm):
    region = forms.CharField(initial="north")
    key = SecretField(label="Key", rows=4)

    def read_config(self, name):
        return {"region": self.cleaned_data["region"]}


@pytest.fixture
def vault(monkeypatch, home):
    """A kind of resource that answers whoever has one of its keys."""
    vault = Vault({"key-1"})

    def check(config, credentials):
        if len(credentials.get("key", "key-1")) < 5:
            raise InvalidResource("A key has five characters.", field="key")
        if config["region"] == "nowhere":
            raise InvalidResource("There is no region nowhere.", field="region")

    def open_driver(resource, home, credentials):
        vault.meanwhile()
        driver = VaultDriver(vault, home / "vault", [NodeFacts("v-1", 1000, 2**30, (), {})])
        driver.is_away = credentials.get("key", "") not in vault.keys
        return driver

    kind = ResourceKind(
        "vault",
        "vault: has a key",
        check=check,
        open=open_driver,
        form=VaultForm,
        site_of=lambda _: vault.site,
        changeable=lambda config: () if config.get("own_account") else ("region",),
    )
    monkeypatch.setitem(drivers.KINDS, "vault", kind)
    return vault


@pytest.fixture
def browser(site_admin) -> Client:
    return browser_of(site_admin)


@pytest.fixture
def sites(site_admin, home):
    for name in ("far", "near"):
        cache_sites.create_site(actor=site_admin, name=name, kind="simulated", config=DECLARED)


@pytest.fixture
def folders(site_admin, home):
    for name in ("far", "near"):
        cache_sites.create_site(actor=site_admin, name=name, root=home / name, capacity_bytes=10**6)


def errors_of(answer):
    assert answer.status_code == 200
    return {field: [str(error) for error in errors] for field, errors in answer.context["form"].errors.items()}


def key_of(name: str) -> dict[str, str]:
    return dict(drivers.decrypt(bytes(Resource.objects.get(name=name).credentials)))


def test_sites_are_linked_in_the_order_in_which_they_were_chosen(browser, home, sites):
    browser.post("/compute/attach/", {**LAB, "sites": ["near", "", "far"]})

    assert Resource.objects.get(name="dgx").sites == ["near", "far"]


def test_the_sites_of_a_resource_are_changed_by_the_same_choices(browser, home, sites):
    browser.post("/compute/attach/", {**LAB, "sites": ["near", "far"]})

    browser.post("/compute/dgx/sites/", {"sites": ["far", "", "near"]})

    assert Resource.objects.get(name="dgx").sites == ["far", "near"]
    assert flat(browser.get("/compute/").content.decode()).count('<option value="far" selected>far (simulated)') == 1


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"sites": ["near", "near"]}, "sites", "A cache site is named twice."),
        ({"sites": ["nowhere"]}, "sites", "Select a valid choice. nowhere is not one of the available choices."),
        ({"kind": "local", "sites": ["near"]}, "sites", "near does not exist, so jobs that run cannot read it."),
        ({"name": "No Name"}, "name", "'No Name' cannot be a name."),
        ({"name": "taken"}, "name", "There is a compute resource called 'taken' already."),
        ({"cpu": "none"}, "cpu", "Enter a whole number."),
    ],
)
def test_an_error_stands_at_its_field_and_nothing_is_attached(browser, sites, change, field, words):
    Resource.objects.create(name="taken", kind="simulated")

    answer = browser.post("/compute/attach/", {**LAB, **change})

    ((wrong, [message]),) = errors_of(answer).items()
    assert wrong == field
    assert words in message
    assert list(Resource.objects.values_list("name", flat=True)) == ["taken"]


def test_a_setting_that_is_none_of_its_values_is_refused_with_those(site_admin):
    fields = {name: text for name, text in LAB.items() if name not in {"name", "kind"}}
    words = r"not one of the available choices\. It is one of: dynamic\.$"

    with pytest.raises(InvalidResource, match=words):
        resources.attach_by_fields(actor=site_admin, name="dgx", kind="simulated", fields={**fields, "mig": "mixed"})


def test_what_was_chosen_stands_in_the_form_again_after_an_error(browser, home, sites):
    page = browser.post("/compute/attach/", {**LAB, "memory": "much", "sites": ["near", "far"]}).content.decode()

    assert '<input type="radio" name="kind" value="simulated" checked>' in flat(page)
    assert [page.index(f'<option value="{name}" selected>') for name in ("near", "far")] == sorted(
        page.index(f'<option value="{name}" selected>') for name in ("near", "far")
    )


def test_credentials_are_stored_encrypted_and_no_page_shows_them(browser, vault):
    refused = browser.post("/compute/attach/", {**VAULT, "region": ""}).content.decode()
    browser.post("/compute/attach/", VAULT)

    row = Resource.objects.get(name="vault-1")
    assert (row.config, key_of("vault-1")) == ({"region": "north"}, {"key": "key-1"})
    assert b"key-1" not in bytes(row.credentials)
    pages = [refused, *(browser.get(f"/compute/{each}").content.decode() for each in ("", "vault-1/credentials/"))]
    assert [page for page in pages if "key-1" in page] == []


def test_credentials_are_replaced_by_those_with_which_the_resource_answers(browser, vault):
    browser.post("/compute/attach/", VAULT)
    row = Resource.objects.get(name="vault-1")
    vault.keys = {"key-2"}

    answer = browser.post("/compute/vault-1/credentials/", {"key": "key-2"}, follow=True)

    assert "vault-1 answers with the new credentials." in answer.content.decode()
    assert key_of("vault-1") == {"key": "key-2"}
    assert len(drivers.driver_of(Resource.objects.get(pk=row.pk)).probe()) == 1
    assert AuditEntry.objects.filter(action="compute.replace_credentials").count() == 1


def test_whoever_read_a_resource_before_its_credentials_were_replaced_gets_the_new_driver(browser, vault):
    browser.post("/compute/attach/", VAULT)
    row, unasked = (Resource.objects.get(name="vault-1") for _ in range(2))
    first = drivers.driver_of(row)
    vault.keys = {"key-2"}
    browser.post("/compute/vault-1/credentials/", {"key": "key-2"})

    second = drivers.driver_of(Resource.objects.get(pk=row.pk))

    assert second is not first
    assert [drivers.driver_of(each) for each in (row, unasked, row)] == [second, second, second]
    assert len(second.probe()) == 1


def test_what_the_account_may_not_do_is_told_as_soon_as_its_credentials_are_replaced(browser, vault):
    vault.lacks = ("It may not list quotas.",)
    browser.post("/compute/attach/", VAULT)
    assert resource_selectors.list_cluster_warnings(Resource.objects.get(name="vault-1")) == ["It may not list quotas."]
    vault.lacks = ()

    browser.post("/compute/vault-1/credentials/", {"key": "key-1"})

    assert resource_selectors.list_cluster_warnings(Resource.objects.get(name="vault-1")) == []


@pytest.mark.parametrize("other", [{"id": "cluster-2"}, {"namespace": "team"}])
def test_credentials_of_another_cluster_or_namespace_are_refused_and_the_old_ones_stay(
    browser, vault, site_admin, other
):
    browser.post("/compute/attach/", VAULT)
    vault.keys.add("key-2")
    for name, value in other.items():
        setattr(vault, name, value)

    page = browser.post("/compute/vault-1/credentials/", {"key": "key-2"})
    status, problem = call(site_admin, "PATCH", "/compute/resources/vault-1", {"credentials": {"key": "key-2"}})

    assert errors_of(page) == {"__all__": [f"{problem['title']} {problem['hint']}"]}
    assert (status, problem["code"]) == (409, "compute.other_cluster")
    assert problem["title"] == (
        "These credentials are of another cluster than vault-1, or of another namespace there: its jobs would count as "
        "lost, and its copies as gone."
    )
    assert problem["hint"] == "Attach the other one under another name."
    row = Resource.objects.get(name="vault-1")
    cluster = resource_selectors.find_cluster_facts(row)
    assert (key_of("vault-1"), cluster["id"], cluster["namespace"]) == ({"key": "key-1"}, "cluster-1", "jobs")


def test_a_resource_that_was_attached_before_clusters_were_known_learns_at_its_next_probe_which_it_is(
    browser, vault, site_admin
):
    browser.post("/compute/attach/", VAULT)
    Resource.objects.update(facts={"cluster": {"version": "v1"}}, facts_at=None)
    row = Resource.objects.get(name="vault-1")
    vault.id = ""  # the account may not read it yet
    resources.replace_credentials(actor=site_admin, resource=row, credentials={"key": "key-1"})
    vault.id = "cluster-1"
    Resource.objects.update(facts_at=None)
    probes.probe_resource(resource=Resource.objects.get(pk=row.pk))
    vault.id = ""  # nor any more
    Resource.objects.update(facts_at=None)
    probes.probe_resource(resource=Resource.objects.get(pk=row.pk))
    vault.id = "cluster-2"

    with pytest.raises(OtherCluster):
        resources.replace_credentials(
            actor=site_admin, resource=Resource.objects.get(pk=row.pk), credentials={"key": "key-1"}
        )

    assert resource_selectors.find_cluster_facts(Resource.objects.get(pk=row.pk))["id"] == "cluster-1"


def test_another_cluster_gets_no_old_name_while_the_site_of_that_name_has_copies(
    vault, site_admin, member, project, home
):
    earlier = Resource.objects.create(
        pk="res_lab", name="vault-1", kind="vault", detached_at=clock.now(), facts={"cluster": {"id": "cluster-0"}}
    )
    config = {"storage_class": STORAGE_CLASS, "size_bytes": 10**12}
    vault.site = OwnSite("volume", {"resource": earlier.pk, **config})
    attach = {
        "actor": site_admin,
        "name": "vault-1",
        "kind": "vault",
        "config": {"region": "n", "skip_storage_probe": True},
    }
    attach |= {"credentials": {"key": "key-1"}}
    make_store(home / "store")
    commit = commit_files(member, make_dataset(member, project, "digits"), {"a": b"1"})
    with lab():
        site = cache_sites.create_site(actor=site_admin, name="vault-1", kind="volume", config=vault.site.config)
        copy = new_row(site, commit)

        with pytest.raises(OtherCluster) as refused:
            resources.attach_resource(**attach)
        kept = Resource.objects.filter(detached_at=None).count()
        copy.delete()
        resources.attach_resource(**attach)

    assert refused.value.message == (
        "The cache site vault-1 has copies on another cluster or namespace, which had this name before. "
        "If it never comes back, give it up: `nearline compute give-up vault-1`."
    )
    assert kept == 0
    assert Resource.objects.get(detached_at=None).sites == ["vault-1"]


def test_credentials_are_replaced_over_the_api_by_the_names_of_the_form(browser, vault, site_admin):
    browser.post("/compute/attach/", VAULT)
    vault.keys = {"key-2"}
    route = "/compute/resources/vault-1"

    refused = [
        call(site_admin, "PATCH", route, {"credentials": credentials})
        for credentials in ({}, {"key": "k"}, {"key": "key-3"}, {"key": "key-2", "region": "south"})
    ]
    status, _ = call(site_admin, "PATCH", route, {"credentials": {"key": "key-2"}})

    assert [(status, "key-" in str(problem)) for status, problem in refused] == [
        (status, False) for status in (400, 400, 503, 400)
    ]
    assert (status, key_of("vault-1")) == (200, {"key": "key-2"})


def test_a_setting_is_changed_over_the_api_and_drivers_are_opened_anew_with_it(browser, vault, site_admin):
    browser.post("/compute/attach/", VAULT)
    before = drivers.driver_of(Resource.objects.get(name="vault-1"))

    answer = call(site_admin, "PATCH", "/compute/resources/vault-1", {"settings": {"region": "south"}})

    row = Resource.objects.get(name="vault-1")
    assert (answer.status, row.config, key_of("vault-1")) == (200, {"region": "south"}, {"key": "key-1"})
    after = drivers.driver_of(row)
    assert after is not before
    assert drivers.driver_of(Resource.objects.get(name="vault-1")) is after
    [entry] = AuditEntry.objects.filter(action="compute.set_config")
    assert entry.facts == {"region": "south"}


def test_settings_of_a_resource_without_credentials_open_its_driver_anew_too(vault):
    row = Resource.objects.create(name="vault-1", kind="vault", config={"region": "north"})
    elsewhere = Resource.objects.get(pk=row.pk)  # as a process has it that knows nothing of the change
    before = drivers.driver_of(elsewhere)

    resources.change_settings(actor=Actor.system("test"), resource=row, fields={"region": "south"})

    after = drivers.driver_of(Resource.objects.get(pk=row.pk))
    assert after is not before
    assert drivers.driver_of(elsewhere) is after
    assert (key_of("vault-1"), elsewhere.config) == ({}, {"region": "south"})


def test_of_two_changes_at_once_the_second_is_refused_as_nobody_checked_both(vault, browser, site_admin):
    browser.post("/compute/attach/", VAULT)
    vault.keys.add("key-2")
    seen = Resource.objects.get(name="vault-1")  # as another process read it, before the first change
    resources.change_settings(
        actor=site_admin, resource=Resource.objects.get(name="vault-1"), fields={"region": "south"}
    )

    with pytest.raises(ResourceChanged, match="Somebody else has changed vault-1 meanwhile"):
        resources.change_settings(actor=site_admin, resource=seen, fields={"region": "east"})
    with pytest.raises(ResourceChanged):
        resources.replace_credentials(actor=site_admin, resource=seen, credentials={"key": "key-2"})

    row = Resource.objects.get(name="vault-1")
    assert (row.config, key_of("vault-1")) == ({"region": "south"}, {"key": "key-1"})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"region": "nowhere"}, "There is no region nowhere."),
        ({"region": ""}, "The settings cannot be taken. region: This field is required."),
        ({"key": "key-2"}, "vault-1 has no setting 'key' that can be changed. There are: region."),
    ],
)
def test_a_setting_that_cannot_be_changed_so_is_refused_in_words(browser, vault, site_admin, fields, words):
    browser.post("/compute/attach/", VAULT)

    answer = call(site_admin, "PATCH", "/compute/resources/vault-1", {"settings": fields})

    assert (answer.status, answer.body["title"]) == (400, words)
    assert Resource.objects.get(name="vault-1").config == {"region": "north"}


def test_settings_that_come_with_the_chart_are_not_changed_here(browser, vault, site_admin):
    browser.post("/compute/attach/", VAULT)
    Resource.objects.update(config={"region": "north", "own_account": True})

    answer = call(site_admin, "PATCH", "/compute/resources/vault-1", {"settings": {"region": "south"}})

    assert answer.body["title"].endswith("None can. They come with the values of Nearline's chart.")
    assert ">Settings</a>" not in browser.get("/compute/vault-1/").content.decode()


def test_the_page_of_settings_shows_them_and_says_what_is_wrong_at_its_field(browser, vault):
    browser.post("/compute/attach/", VAULT)
    address = "/compute/vault-1/settings/"
    assert f'href="{address}">Settings</a>' in browser.get("/compute/vault-1/").content.decode()
    assert 'value="north"' in browser.get(address).content.decode()

    refused = browser.post(address, {"region": "nowhere"})
    answer = browser.post(address, {"region": "south"}, follow=True)

    assert errors_of(refused) == {"region": ["There is no region nowhere."]}
    assert "vault-1 is changed. Jobs that run keep what they were started with." in answer.content.decode()
    assert Resource.objects.get(name="vault-1").config == {"region": "south"}


@pytest.mark.parametrize(
    ("key", "field", "words"),
    [("key-3", "__all__", "The scripted resource is away."), ("k", "key", "A key has five characters.")],
)
def test_credentials_that_do_not_work_are_refused_and_the_old_ones_stay(browser, vault, key, field, words):
    browser.post("/compute/attach/", VAULT)

    answer = browser.post("/compute/vault-1/credentials/", {"key": key})

    ((wrong, [message]),) = errors_of(answer).items()
    assert (wrong, message.startswith(words)) == (field, True)
    assert [text for text in (f">{key}<", f'value="{key}"') if text in answer.content.decode()] == []
    assert key_of("vault-1") == {"key": "key-1"}


@pytest.mark.parametrize(
    ("address", "fields"),
    [("/compute/attach/", {**VAULT, "name": "No name"}), ("/compute/vault-1/credentials/", {"key": "key-3"})],
)
def test_a_page_that_refuses_says_which_fields_it_did_not_keep(browser, vault, address, fields):
    browser.post("/compute/attach/", VAULT)

    pages = [browser.post(address, values).content.decode() for values in (fields, {**fields, "key": ""})]

    assert [page.count("Give it again: it was not kept.") for page in pages] == [1, 0]


def test_a_name_that_is_taken_while_a_resource_is_asked_is_refused_and_nothing_is_kept(browser, vault, folders):
    vault.meanwhile = lambda: Resource.objects.create(name="vault-1", kind="simulated")

    answer = browser.post("/compute/attach/", {**VAULT, "sites": ["near"]})

    ((field, [message]),) = errors_of(answer).items()
    assert (field, message.startswith("There is a compute resource called 'vault-1' already.")) == ("name", True)
    assert list(Resource.objects.values_list("name", "kind")) == [("vault-1", "simulated")]
    assert not ResourceSite.objects.exists()
    assert not AuditEntry.objects.filter(action="compute.attach_resource").exists()


def test_a_resource_that_is_detached_while_it_is_asked_keeps_its_credentials_and_sites(browser, vault, folders):
    browser.post("/compute/attach/", {**VAULT, "sites": ["near"]})
    row = Resource.objects.get(name="vault-1")
    admin = Actor.system("test")
    vault.keys = {"key-2"}
    vault.meanwhile = lambda: resources.detach_resource(actor=admin, resource=row)

    with pytest.raises(ResourceNotFound, match="vault-1 was detached meanwhile"):
        resources.replace_credentials(actor=admin, resource=row, credentials={"key": "key-2"})
    with pytest.raises(ResourceNotFound):
        resources.set_sites(actor=admin, resource=row, sites=["far"])
    with pytest.raises(ResourceNotFound):
        resources.detach_resource(actor=admin, resource=row)

    assert (key_of("vault-1"), Resource.objects.get(pk=row.pk).sites) == ({"key": "key-1"}, ["near"])
    assert AuditEntry.objects.filter(action="compute.detach_resource").count() == 1


def test_no_two_kinds_ask_for_a_field_of_the_same_name():
    names = [name for kind in drivers.KINDS.values() for name in kind.form.base_fields]

    assert sorted(names) == sorted(set(names))
    assert not {"name", "kind", "sites"} & set(names)


@pytest.mark.parametrize("name", ["local", "simulated"])
def test_a_kind_tells_what_its_drivers_can_mount(home, name):
    kind = drivers.KINDS[name]

    assert drivers.open_driver(Resource(name="new", kind=name), {}).mountable == kind.mountable


def test_a_kubeconfig_that_cannot_be_read_is_refused_in_words_and_not_shown_again(browser, home):
    page = browser.post(
        "/compute/attach/",
        {"name": "k8s", "kind": "kubernetes", "kubeconfig": "token: geheim-123", "agent_image": "nearline:1"},
    )

    assert page.status_code == 200
    assert "The kubeconfig has no contexts." in page.content.decode()
    assert "geheim-123" not in page.content.decode()
    assert not Resource.objects.exists()
