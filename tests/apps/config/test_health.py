"""Who may read the numbers of the process."""

import pytest

from accounts.services import tokens

pytestmark = pytest.mark.django_db


def test_the_machine_itself_reads_the_metrics_without_a_token(client):
    answer = client.get("/metrics", REMOTE_ADDR="127.0.0.1")

    assert answer.status_code == 200
    assert b"nearline_task_seconds" in answer.content


@pytest.mark.parametrize("request_of", [{"REMOTE_ADDR": "10.0.0.9"}, {"headers": {"X-Forwarded-For": "127.0.0.1"}}])
def test_somebody_elsewhere_needs_a_token_for_the_metrics(client, member, request_of):
    _, secret = tokens.create_token(actor=member, name="prometheus", expires_at=None)

    refused = client.get("/metrics", **request_of)
    assert (refused.status_code, refused.json()["code"]) == (401, "accounts.not_signed_in")

    headers = {"Authorization": f"Bearer {secret}", **request_of.get("headers", {})}
    assert client.get("/metrics", **{**request_of, "headers": headers}).status_code == 200


def test_a_worthless_token_reads_no_metrics(client):
    answer = client.get("/metrics", REMOTE_ADDR="10.0.0.9", headers={"Authorization": "Bearer nl_guess"})

    assert answer.status_code == 401
