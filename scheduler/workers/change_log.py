"""The log of what changes of the rows that cycles read. Triggers keep it, so nothing that writes can forget to tell.

They are made after each migration: SQLite drops those of a table that it rebuilds.
"""

from collections.abc import Iterator
from typing import NamedTuple

from django.db import connection, transaction

from scheduler.engine.states import WorkloadState
from scheduler.models import Change, ChangeKind, Queue

_KEPT = 200_000
_NO_RULES = {"id", "created_at", "used_gpu_s"}

_NAMES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT tgname FROM pg_trigger",
}
_CREATE = {
    "sqlite": """
CREATE TRIGGER {name} AFTER {event} ON {table} FOR EACH ROW BEGIN
INSERT INTO scheduler_change (kind, key, at) VALUES ({kind}, {key}, 0); END;
""",
    "postgresql": """
CREATE OR REPLACE FUNCTION {name}() RETURNS trigger AS $$ BEGIN
INSERT INTO scheduler_change (kind, key, at) VALUES ({kind}, {key}, pg_current_xact_id()::text::bigint);
RETURN NULL; END $$ LANGUAGE plpgsql;
CREATE OR REPLACE TRIGGER {name} AFTER {event} ON {table} FOR EACH ROW EXECUTE FUNCTION {name}();
""",
}


class _Trigger(NamedTuple):
    """What is noted when: SQL for the kind of the change and for its key. Another one needs another name."""

    table: str
    event: str
    kind: str
    key: str

    @property
    def name(self) -> str:
        return f"note_{self.table}_{self.event.split()[0]}".lower()


def install() -> None:
    """Let the database note each change from now on. What is there already is left alone, and so is an older schema."""
    if Change._meta.db_table not in connection.introspection.table_names():
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_NAMES[connection.vendor])
        names = {name for (name,) in cursor.fetchall()}
        for trigger in _triggers():
            if trigger.name not in names:
                cursor.execute(_CREATE[connection.vendor].format(**trigger._asdict(), name=trigger.name))


def _triggers() -> Iterator[_Trigger]:
    is_gone = f"CASE NEW.state WHEN '{WorkloadState.RELEASED}' THEN '{ChangeKind.GONE}' ELSE '{ChangeKind.CHANGED}' END"
    rules = ", ".join(field.attname for field in Queue._meta.concrete_fields if field.name not in _NO_RULES)
    seen = "state, queue_id, resource_id, evictions, revision, placed_at, requeued_at, reason, reason_code, answer_id"
    yield _Trigger("scheduler_workload", "INSERT", f"'{ChangeKind.NEW}'", "NEW.id")
    yield _Trigger("scheduler_workload", f"UPDATE OF {seen}", is_gone, "NEW.id")
    yield _Trigger("scheduler_workload", "DELETE", f"'{ChangeKind.GONE}'", "OLD.id")
    for table, kind, key, columns in (
        ("scheduler_placement", ChangeKind.CHANGED, "workload_id", " OF evicting_since, saved_at_s"),
        ("scheduler_reservation", ChangeKind.RESERVED, "workload_id", ""),
        ("scheduler_node", ChangeKind.NODE, "id", " OF revision"),
        ("scheduler_queue", ChangeKind.QUEUE, "id", f" OF {rules}"),
        ("scheduler_pool", ChangeKind.QUEUE, "id", ""),
        ("scheduler_packing", ChangeKind.PACKING, "id", ""),
    ):
        yield _Trigger(table, "INSERT", f"'{kind}'", f"NEW.{key}")
        yield _Trigger(table, f"UPDATE{columns}", f"'{kind}'", f"NEW.{key}")
        yield _Trigger(table, "DELETE", f"'{kind}'", f"OLD.{key}")


def collect() -> None:
    """Delete all but the newest changes. A reader that has missed some of them reads everything anew."""
    newest = Change.objects.order_by("-pk").values_list("pk", flat=True).first()
    if newest is not None:
        Change.objects.filter(pk__lte=newest - _KEPT).delete()
