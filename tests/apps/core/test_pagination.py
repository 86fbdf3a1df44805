"""Lists page by page, in any order: no row twice, none left out."""

import pytest

from accounts.models import AuditEntry
from core.errors import InvalidInput
from core.pagination import encode_cursor, paginate_by

pytestmark = pytest.mark.django_db


def add_entries(*names: str) -> None:
    for name in names:
        AuditEntry.objects.create(actor_name=name, action="x", target_kind="x", target_id="x", target_name="x")


@pytest.mark.parametrize("descending", [False, True])
def test_equal_values_over_a_page_break_neither_repeat_nor_go_missing(descending):
    add_entries("b", "a", "b", "c", "b")
    seen, cursor = [], None

    while True:
        page = paginate_by(AuditEntry.objects.all(), field="actor_name", descending=descending, cursor=cursor, limit=2)
        seen += [(entry.actor_name, entry.pk) for entry in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break

    assert seen == sorted(set(seen), reverse=descending)
    assert len(seen) == 5


@pytest.mark.parametrize("key", ["aud_1", ["a"], [["a"], "aud_1"], {"a": 1}])
def test_a_link_of_another_order_is_refused(key):
    with pytest.raises(InvalidInput):
        paginate_by(AuditEntry.objects.all(), field="actor_name", descending=False, cursor=encode_cursor(key), limit=2)
