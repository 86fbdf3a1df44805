"""The commits page keeps asking as long as it shows a copy on its way in or out, whatever changes while it is made."""

import re

import pytest
from django.db import connection
from django.test import Client

from datasets.engine.cache_states import CacheState
from datasets.models import CachedCommit
from datasets.services import caches
from tests.factories.browsers import browser_of

pytestmark = pytest.mark.django_db

PAGE = "/datasets/team-a/xrays/commits/"


@pytest.fixture
def browser(member) -> Client:
    return browser_of(member)


def asks_again(page: str) -> bool:
    """Whether the region of what moves asks for itself again."""
    return re.search(r'<div id="moving"[^>]* hx-get=', page) is not None


def becomes_ready_after_the_first_look(execute, sql, params, many, context):
    """Let the worker finish right after somebody has read the copies."""
    answer = execute(sql, params, many, context)
    if sql.startswith("SELECT") and 'FROM "datasets_cachedcommit"' in sql:
        CachedCommit.objects.filter(state=CacheState.QUEUED).update(state=CacheState.READY)
    return answer


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}], ids=["page", "live part"])
def test_a_copy_that_is_ready_a_moment_after_it_was_read_is_asked_for_again(browser, member, commit, site, headers):
    caches.request_cache(actor=member, commit=commit, site=site)

    with connection.execute_wrapper(becomes_ready_after_the_first_look):
        shown = browser.get(PAGE, headers=headers).content.decode()
    later = browser.get(PAGE, headers=headers).content.decode()

    assert ("local 0 %" in shown, asks_again(shown)) == (True, True)
    assert ("local 0 %" in later, asks_again(later), "pill cached" in later) == (False, False, True)


def test_a_copy_on_its_way_out_is_asked_for_until_it_is_gone(browser, member, ready):
    caches.uncache(actor=member, cached_commit_id=ready.pk)

    leaving = browser.get(PAGE).content.decode()
    CachedCommit.objects.filter(pk=ready.pk).update(state=CacheState.GONE)
    gone = browser.get(PAGE).content.decode()

    assert asks_again(leaving)
    assert not asks_again(gone)
