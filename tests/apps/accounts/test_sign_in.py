"""Signing in on the page, and what stops those who guess."""

import base64

import pytest
from django.core.cache import cache
from django.test import Client

from accounts.adapter import AccountAdapter
from accounts.models import ApiToken, AuditEntry, User
from accounts.services import tokens
from tests.factories.api import call

pytestmark = pytest.mark.django_db

PASSWORD = "a long enough password"
ROUTES_OF_TOKENS = [("GET", "/me"), ("GET", "/tokens"), ("POST", "/users"), ("DELETE", "/tokens/tok_1")]


@pytest.fixture(autouse=True)
def _forget_earlier_failures():
    cache.clear()
    yield
    cache.clear()


@pytest.fixture(autouse=True)
def _quick_hashes(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada", password=PASSWORD)


def sign_in(client: Client, password: str, *, username: str = "ada", address: str = "127.0.0.1"):
    return client.post("/accounts/login/", {"login": username, "password": password}, REMOTE_ADDR=address)


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_the_right_password_signs_in(client, ada):
    answer = sign_in(client, PASSWORD)

    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    assert is_signed_in(client)


def test_a_wrong_password_does_not(client, ada):
    answer = sign_in(client, "wrong")

    assert "not correct" in answer.content.decode()
    assert not is_signed_in(client)


def test_the_sixth_attempt_after_five_wrong_passwords_is_refused_even_with_the_right_one(client, ada):
    for _ in range(5):
        assert "Too many failed login attempts" not in sign_in(client, "wrong").content.decode()

    sixth = sign_in(client, "wrong")
    assert "Too many failed login attempts. Try again later." in sixth.content.decode()
    seventh = sign_in(client, PASSWORD)
    assert "Too many failed login attempts. Try again later." in seventh.content.decode()
    assert not is_signed_in(client)


def test_the_refusal_is_for_one_account_from_one_address(client, ada):
    User.objects.create_user("bob", password=PASSWORD)
    for _ in range(5):
        sign_in(client, "wrong")

    assert sign_in(client, PASSWORD, username="bob").status_code == 302
    assert sign_in(Client(), PASSWORD, address="10.0.0.9").status_code == 302


def storm(*, addresses: int) -> None:
    """Try five wrong passwords for ada from each of many addresses."""
    for number in range(addresses):
        for _ in range(5):
            sign_in(Client(), "wrong", address=f"203.0.113.{number}")


def test_guesses_from_many_addresses_end_after_thirty_in_an_hour(ada):
    storm(addresses=6)

    refused = sign_in(Client(), PASSWORD, address="10.0.0.9")

    assert "Too many failed login attempts" in refused.content.decode()


def test_a_storm_of_guesses_from_elsewhere_does_not_lock_out_a_browser_that_the_owner_has_used(client, ada):
    sign_in(client, PASSWORD)
    client.get("/")
    client.post("/accounts/logout/")
    storm(addresses=8)

    assert sign_in(client, PASSWORD).status_code == 302
    assert is_signed_in(client)


def test_guesses_behind_the_owners_own_address_do_not_lock_out_their_browser(client, ada):
    sign_in(client, PASSWORD)
    client.get("/")
    client.post("/accounts/logout/")
    for _ in range(25):
        sign_in(Client(), "wrong")

    assert sign_in(client, PASSWORD).status_code == 302


def test_a_known_browser_has_five_attempts_too(client, ada):
    sign_in(client, PASSWORD)
    client.get("/")
    client.post("/accounts/logout/")
    for _ in range(5):
        sign_in(client, "wrong")

    assert "Too many failed login attempts" in sign_in(client, PASSWORD).content.decode()


def test_the_cookie_of_a_browser_helps_its_own_person_only_and_cannot_be_made_up(client, ada):
    User.objects.create_user("eve", password=PASSWORD)
    sign_in(client, PASSWORD, username="eve")
    client.get("/")
    client.post("/accounts/logout/")
    storm(addresses=6)

    assert "Too many failed" in sign_in(client, PASSWORD).content.decode()
    client.cookies["known_browser"] = "WyJhZGEiLCAieCJd:1aaaaa:forged"
    assert "Too many failed" in sign_in(client, PASSWORD).content.decode()


def test_successes_do_not_count_as_attempts(ada):
    for _ in range(8):
        assert sign_in(Client(), PASSWORD).status_code == 302


def test_sign_in_needs_a_csrf_token(ada):
    client = Client(enforce_csrf_checks=True)

    assert sign_in(client, PASSWORD).status_code == 403
    assert not is_signed_in(client)


def test_nobody_signs_up(client, rf):
    assert AccountAdapter().is_open_for_signup(rf.get("/")) is False
    assert client.get("/accounts/signup/").status_code == 404


def test_a_link_signs_in_once(client, ada, site_admin):
    secret = tokens.create_sign_in_link(actor=site_admin, user=ada)

    assert client.get(f"/sign-in/{secret}/").status_code == 200
    assert not is_signed_in(client)
    assert client.post(f"/sign-in/{secret}/").status_code == 302
    assert is_signed_in(client)
    refused = Client().post(f"/sign-in/{secret}/")
    assert refused.status_code == 401
    assert "Ask an admin for a new one" in refused.content.decode()


def test_a_page_that_writes_through_the_api_needs_a_csrf_token(ada):
    client = Client(enforce_csrf_checks=True)
    client.force_login(ada)

    answer = client.post("/api/v1/tokens", {"name": "laptop"}, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, "accounts.permission_denied")

    client.cookies["csrftoken"] = "a" * 32
    answer = client.post(
        "/api/v1/tokens", {"name": "laptop"}, content_type="application/json", headers={"X-CSRFToken": "a" * 32}
    )
    assert answer.status_code == 201


def test_a_session_may_read_through_the_api(client, ada):
    client.force_login(ada)

    assert client.get("/api/v1/me").json()["name"] == "ada"


def test_worthless_tokens_are_refused_faster_after_twenty_but_good_ones_still_work(member):
    answers = [call(None, "GET", "/me", Authorization="Bearer nl_guess") for _ in range(21)]

    assert [answer.status for answer in answers] == [401] * 20 + [429]
    assert answers[-1].body["code"] == "accounts.too_many_attempts"
    assert call(member, "GET", "/me").status == 200


def test_a_person_who_was_deactivated_has_no_valid_token(member):
    User.objects.filter(pk=member.user_id).update(is_active=False)

    assert call(member, "GET", "/me").status == 401


def make_token(password: str, *, username: str = "ada"):
    credentials = base64.b64encode(f"{username}:{password}".encode()).decode()
    return call(None, "POST", "/tokens", {"name": "laptop"}, Authorization=f"Basic {credentials}")


def test_a_password_makes_a_token_and_the_audit_log_has_it(ada):
    answer = make_token(PASSWORD)

    me = call(None, "GET", "/me", Authorization=f"Bearer {answer.body['secret']}")
    assert (answer.status, me.body["name"]) == (201, "ada")
    [entry] = AuditEntry.objects.filter(action="accounts.create_token")
    assert (entry.actor_name, entry.target_id, PASSWORD in str(vars(entry))) == ("ada", answer.body["id"], False)


def test_a_password_does_nothing_else_than_make_a_token(ada):
    credentials = base64.b64encode(f"ada:{PASSWORD}".encode()).decode()

    answers = [call(None, method, path, Authorization=f"Basic {credentials}") for method, path in ROUTES_OF_TOKENS]

    assert {answer.status for answer in answers} == {401}


@pytest.mark.parametrize(
    "credentials",
    ["", "!", "YWRh", base64.b64encode(b"ada:\xff").decode(), base64.b64encode(b"a\0:x").decode()],
)
def test_credentials_that_cannot_be_read_make_no_token(ada, credentials):
    answer = call(None, "POST", "/tokens", {"name": "laptop"}, Authorization=f"Basic {credentials}")

    assert (answer.status, answer.body["code"]) == (401, "accounts.not_signed_in")
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize(("username", "password"), [("ada", "wrong"), ("nobody", PASSWORD), ("ada", "")])
def test_a_wrong_name_and_a_wrong_password_are_told_alike(ada, username, password):
    answer = make_token(password, username=username)

    assert (answer.status, answer.body["title"]) == (401, "The name or the password is not correct.")
    assert not ApiToken.objects.exists()


def test_wrong_passwords_of_tokens_and_of_the_page_are_counted_together(client, ada):
    for _ in range(3):
        sign_in(client, "wrong")
    for _ in range(2):
        make_token("wrong")

    refused = make_token(PASSWORD)

    assert (refused.status, refused.body["code"]) == (429, "accounts.too_many_attempts")
    assert "Too many failed login attempts" in sign_in(client, PASSWORD).content.decode()
    assert not ApiToken.objects.exists()


def test_a_disabled_person_gets_no_token(ada):
    User.objects.update(is_active=False)

    answer = make_token(PASSWORD)

    assert (answer.status, answer.body["code"]) == (403, "accounts.person_disabled")
    assert not ApiToken.objects.exists()
