"""Each test fails that asks a resource or a store within a transaction (`tests/conftest.py`); here is what is noted."""

import pytest
from django.db import transaction

from core.breaker import Breaker
from datasets.adapters.folder import FolderStore
from datasets.adapters.folder_marks import STORE_MARK, ensure_mark
from datasets.adapters.scoped import ScopedStore
from tests.transactions import undone


def ask() -> None:
    Breaker(RuntimeError, longest_s=1).enter()


@pytest.mark.django_db
def test_a_question_within_a_transaction_is_noted_with_who_asks(asked_within_transactions):
    with transaction.atomic():
        ask()

    (stack,) = asked_within_transactions
    assert "in ask\n" in stack
    asked_within_transactions.clear()


@pytest.mark.django_db
def test_a_question_to_a_store_is_noted_and_that_to_a_part_of_it(tmp_path, asked_within_transactions):
    folder = FolderStore(
        tmp_path,
        store_id="st_1",
        name="main",
        mark=ensure_mark(tmp_path, STORE_MARK),
        base_url="http://testserver",
    )
    store = ScopedStore(folder, "datasets/ds_1")

    with undone(), transaction.atomic():
        store.put("a", b"one")

    assert len(asked_within_transactions) == 2
    asked_within_transactions.clear()


@pytest.mark.django_db(transaction=True)
def test_a_question_within_a_transaction_is_noted_where_tests_commit(asked_within_transactions):
    with transaction.atomic():
        ask()
    ask()

    assert len(asked_within_transactions) == 1
    asked_within_transactions.clear()


@pytest.mark.django_db
def test_the_transaction_of_a_test_is_none_of_the_product(asked_within_transactions):
    ask()

    assert asked_within_transactions == []
