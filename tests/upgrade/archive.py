"""Unpacks the home folder that the first release wrote, at another place."""

import sqlite3
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
from psycopg import sql

from tests.journeys.product import BIN, ROOT
from tests.upgrade.make_first_release import ARCHIVE, HOME

_TEXTS = ("*.sources", "*.json")


def unpack(home: Path) -> None:
    """Write the archived home to `home`, and make what it says of its own place true there."""
    home.mkdir(mode=0o700, parents=True)
    # The Python of Debian 12 knows no filters; the archive is ours.
    options = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(home, **options)
    for path in sorted(home.rglob("*")):
        if path.is_symlink():
            target = str(path.readlink())
            path.unlink()
            path.symlink_to(target.replace(str(HOME), str(home), 1))
    for pattern in _TEXTS:
        for path in (home / "runs").rglob(pattern):
            path.write_text(path.read_text().replace(str(HOME), str(home)))
    _move_database(home)


def _move_database(home: Path) -> None:
    database = sqlite3.connect(home / "nearline.sqlite3")
    for table in _tables(database):
        for _, column, kind, *_ in database.execute(f'PRAGMA table_info("{table}")').fetchall():
            if kind.startswith(("varchar", "text")):
                statement = f'UPDATE "{table}" SET "{column}" = replace("{column}", ?, ?) WHERE instr("{column}", ?)'
                database.execute(statement, (str(HOME), str(home), str(HOME)))
    # An admin may have told that jobs of other resources read a site, too.
    database.execute("UPDATE compute_resource SET cache_site = 'local' WHERE name = 'lab'")
    # The home was in use a moment ago; what has been idle for longer than a day would be evicted.
    database.execute("UPDATE datasets_cachedcommit SET last_used_at = strftime('%Y-%m-%d %H:%M:%f', 'now')")
    database.commit()
    database.close()


def _tables(database: sqlite3.Connection) -> set[str]:
    names = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    return {name for (name,) in names}


def move_to_postgres(home: Path, environment: Mapping[str, str]) -> None:
    """Copy the archived database into the empty one of PostgreSQL, at the schema of the first release."""
    database = sqlite3.connect(home / "nearline.sqlite3")
    # All in one process: the start of each takes longer than its migrations.
    calls = "\n".join(
        f"call_command('migrate', {app!r}, {name!r}, verbosity=0)" for app, name in _newest_migrations(database)
    )
    script = f"from django.core.management import call_command\n{calls}"
    command = [str(BIN / "python"), "manage.py", "shell", "-v", "0", "-c", script]
    subprocess.run(command, cwd=ROOT, env=dict(environment), check=True)
    with psycopg.connect(environment["DATABASE_URL"]) as connection:
        connection.execute("SET session_replication_role = replica")  # rows come in no order that foreign keys know
        connection.execute("SET timezone = 'UTC'")
        for table in sorted(_tables(database) - {"django_migrations"}):
            _copy_rows(database, connection, table)
    database.close()
    (home / "nearline.sqlite3").unlink()


def _newest_migrations(database: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    return database.execute("SELECT app, max(name) FROM django_migrations GROUP BY app ORDER BY app")


def _copy_rows(database: sqlite3.Connection, connection: psycopg.Connection, table: str) -> None:
    kinds = dict(
        connection.execute(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s", [table]
        ).fetchall()
    )
    connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
    rows = database.execute(f'SELECT * FROM "{table}"')
    columns = [column for column, *_ in rows.description]
    # SQLite keeps dates, truth values and JSON as text and numbers: PostgreSQL reads them from text.
    values = [sql.SQL("%s::text::{}").format(sql.SQL(kinds[column])) for column in columns]
    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(", ").join(values)
    )
    for row in rows:
        connection.execute(statement, row)
    if kinds.get("id") in {"integer", "bigint"}:
        connection.execute(
            sql.SQL("SELECT setval(pg_get_serial_sequence(%s, 'id'), coalesce(max(id), 1)) FROM {}").format(
                sql.Identifier(table)
            ),
            [table],
        )
