"""What exists after the first start, on a machine and in a pod; what cannot be prepared is one sentence."""

import dataclasses

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command

from accounts.models import User
from compute.adapters import drivers
from compute.models import Resource, Template
from config import env, first_start
from config.management.commands import up
from core import clock
from datasets.models import CacheSite

CLUSTER = {"agent_image": "nearline:1", "platform_url": "http://nearline.team.svc"}
KEYS = {"NEARLINE_SECRET_KEY": "k", "NEARLINE_SECRETS_KEY": Fernet.generate_key().decode()}


@pytest.fixture
def in_pod(settings, tmp_path):
    settings.NEARLINE = dataclasses.replace(settings.NEARLINE, home=tmp_path, in_pod=True, this_cluster=CLUSTER)


def attached():
    return Resource.objects.filter(detached_at=None).order_by("pk")


@pytest.mark.django_db(transaction=True)
def test_a_store_that_cannot_be_used_ends_the_start_with_a_sentence_and_what_to_check(settings, monkeypatch, tmp_path):
    settings.NEARLINE = dataclasses.replace(
        settings.NEARLINE, home=tmp_path, store_url="s3://my bucket/x?endpoint=http://127.0.0.1:1"
    )
    monkeypatch.setattr(first_start, "_migrate", lambda: None)

    with pytest.raises(CommandError) as ended:
        call_command("setup")

    assert str(ended.value) == (
        "'my bucket' cannot be the name of a bucket: letters, digits, '.', '-' and '_'. "
        "Check NEARLINE_STORE_URL and the store's keys."
    )


@pytest.mark.django_db(transaction=True)
def test_in_a_pod_its_machine_is_no_resource_no_cache_site_and_holds_no_token(in_pod, monkeypatch, tmp_path):
    monkeypatch.setattr(first_start, "_migrate", lambda: None)

    call_command("setup")

    assert [resource.name for resource in attached()] == ["lab"]
    assert not CacheSite.objects.exists()
    assert not (tmp_path / "admin.token").exists()


@pytest.mark.django_db
def test_the_cluster_of_a_pod_is_attached_once_with_templates_and_follows_its_settings(in_pod, settings):
    first_start.attach_this_cluster()
    first_start.attach_this_cluster()

    (resource,) = attached()
    assert (resource.name, resource.kind, bytes(resource.credentials)) == ("this-cluster", "kubernetes", b"")
    assert resource.config == {**CLUSTER, "own_account": True}
    assert set(Template.objects.values_list("name", flat=True)) == {"small", "medium", "gpu-1"}

    settings.NEARLINE = dataclasses.replace(settings.NEARLINE, this_cluster={**CLUSTER, "agent_image": "nearline:2"})
    first_start.attach_this_cluster()

    (changed,) = attached()
    assert changed.config["agent_image"] == "nearline:2"
    assert drivers.decrypt(bytes(changed.credentials)) == {}
    assert bytes(changed.credentials) != b"", "each process opens its driver anew where these are others"


@pytest.mark.django_db
def test_the_cluster_of_a_pod_stays_away_once_an_admin_has_detached_it(in_pod):
    first_start.attach_this_cluster()
    Resource.objects.update(detached_at=clock.now())

    first_start.attach_this_cluster()

    assert list(attached()) == []


@pytest.mark.django_db
def test_a_link_signs_the_first_admin_in_once(client, capsys):
    User.objects.create_superuser("admin")

    call_command("sign_in")

    page = capsys.readouterr().out.strip().removeprefix("http://127.0.0.1:8000")
    assert client.post(page, follow=True).wsgi_request.user.username == "admin"
    assert client.post(page).status_code == 401


@pytest.mark.django_db
def test_the_link_leads_to_the_product_that_runs_on_this_home_folder(tmp_path, settings, capsys):
    User.objects.create_superuser("admin")
    started, asking = (
        dataclasses.replace(settings.NEARLINE, home=tmp_path, public_url="", port=port) for port in (8123, 8000)
    )
    settings.NEARLINE = started
    lock = up._lock(tmp_path)
    settings.NEARLINE = asking

    call_command("sign_in")
    lock.close()
    call_command("sign_in")

    running, stopped = capsys.readouterr().out.split()
    assert running.startswith("http://127.0.0.1:8123/sign-in/")
    assert stopped.startswith("http://127.0.0.1:8000/sign-in/")


@pytest.mark.django_db
def test_without_an_admin_there_is_no_link_but_a_sentence():
    User.objects.create_superuser("gone", is_active=False)

    with pytest.raises(CommandError) as ended:
        call_command("sign_in")

    assert str(ended.value) == "There is no site admin. `python manage.py setup` creates the first one."


@pytest.mark.parametrize("text", ["here", "[]", '{"a": 1}', '{"a": "\\ud800"}', "[" * 100_000])
def test_settings_of_the_own_cluster_that_are_no_texts_are_refused(text, tmp_path):
    with pytest.raises(SystemExit, match="which is not a JSON object of texts"):
        env.read({**KEYS, "NEARLINE_HOME": str(tmp_path), "NEARLINE_THIS_CLUSTER": text})


@pytest.mark.django_db
def test_a_cluster_whose_storage_class_cannot_be_asked_for_is_attached_without_a_cache_site(in_pod, settings):
    config = {**CLUSTER, "storage_class": "trident-nas"}
    settings.NEARLINE = dataclasses.replace(settings.NEARLINE, this_cluster=config)

    first_start.attach_this_cluster()

    assert [resource.config["storage_class"] for resource in attached()] == ["trident-nas"]
    assert not CacheSite.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("start", [first_start.attach_this_cluster, first_start.prepare])
def test_settings_of_the_own_cluster_that_cannot_be_taken_end_the_start_with_a_sentence(start, settings, tmp_path):
    settings.NEARLINE = dataclasses.replace(settings.NEARLINE, home=tmp_path, this_cluster={"agent_image": ""})

    with pytest.raises(CommandError) as ended:
        start()

    assert str(ended.value) == (
        "NEARLINE_THIS_CLUSTER: The settings cannot be taken. agent_image: This field is required."
    )
    assert not attached().exists()
