"""An empty database gets its tables whole; they are those that all migrations together would make."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from django.db import connection

ROOT = Path(__file__).resolve().parents[3]

TELL = """
import json, re, sys
import django
from django.core.management import call_command
django.setup()
from django.db import connection
from config import schema

def parts(statement):
    depth, found = 0, [""]
    for mark in statement[statement.index("(") + 1 : statement.rindex(")")]:
        depth += (mark == "(") - (mark == ")")
        if mark == "," and depth == 0:
            found.append("")
        else:
            found[-1] += mark
    return sorted(part.strip() for part in found)

def rows(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()

def nameless(index):
    return re.sub(r"INDEX \\S+ ON", "INDEX ON", index)

schema.bring_up_to_date() if sys.argv[1] == "whole" else call_command("migrate", verbosity=0)
if connection.vendor == "sqlite":
    tables = {name: parts(sql) for name, sql in rows("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")}
    indexes = [nameless(sql) for sql, in rows("SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql <> ''")]
else:
    # Django's own `auth_group_permissions` numbers its rows by another type in a migration than in its model.
    tables = rows(
        "SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default, is_identity "
        "FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT LIKE 'auth_%' "
        "ORDER BY table_name, column_name"
    ) + rows(
        "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2"
    )
    indexes = [nameless(sql) for sql, in rows("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'")]
applied = rows("SELECT app, name FROM django_migrations ORDER BY app, name")
named = rows("SELECT app_label, model FROM django_content_type ORDER BY app_label, model")
print(json.dumps([tables, sorted(indexes), applied, named]))
"""


@pytest.mark.services
@pytest.mark.django_db(transaction=True)
def test_tables_made_whole_are_those_that_the_migrations_make(tmp_path):
    both = {way: _start(way, tmp_path) for way in ("whole", "migrated")}
    (whole, migrated) = (json.loads(process.communicate()[0]) for process in both.values())

    assert [process.returncode for process in both.values()] == [0, 0]
    assert len(whole[0]) > 50
    for made_whole, made_by_migrations in zip(whole, migrated, strict=True):
        assert made_whole == made_by_migrations


def _start(way: str, folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "NEARLINE_HOME": str(folder / way)}
    (folder / way).mkdir()
    if connection.vendor == "postgresql":
        name = f"schema_{uuid.uuid4().hex[:12]}"
        with connection.cursor() as cursor:
            cursor.execute(f'CREATE DATABASE "{name}"')
        environment["DATABASE_URL"] = os.environ["DATABASE_URL"].rsplit("/", 1)[0] + f"/{name}"
    return subprocess.Popen([sys.executable, "-c", TELL, way], cwd=ROOT, env=environment, stdout=subprocess.PIPE)
