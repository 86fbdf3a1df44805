"""A browser of a member, and what a page asks of the database."""

import pytest
from django.test import Client

from tests.factories.browsers import browser_of


@pytest.fixture
def browser(member) -> Client:
    return browser_of(member)


@pytest.fixture
def count_queries(django_assert_max_num_queries):
    """Return a function that opens a page and returns how many queries it took."""

    def count(client: Client, url: str) -> int:
        with django_assert_max_num_queries(200) as queries:
            assert client.get(url).status_code == 200
        return len(queries)

    return count
