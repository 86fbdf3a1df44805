"""A browser of somebody in each role."""

import pytest
from django.test import Client

from accounts.models import User


@pytest.fixture
def sign_in():
    """Return a function that makes a browser in which a person is signed in."""

    def make(actor) -> Client:
        client = Client()
        client.force_login(User.objects.get(pk=actor.user_id))
        return client

    return make


@pytest.fixture
def browser(sign_in, member) -> Client:
    return sign_in(member)


@pytest.fixture
def count_queries(django_assert_max_num_queries):
    """Return a function that opens a page and returns how many queries it took."""

    def count(client: Client, url: str) -> int:
        with django_assert_max_num_queries(200) as queries:
            assert client.get(url).status_code == 200
        return len(queries)

    return count
