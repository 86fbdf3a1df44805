"""The secrets of a project."""

from typing import Annotated

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm, read_hidden
from nearline.cli.group import CommandGroup
from nearline.cli.options import Project, Yes
from nearline.cli.session import session_of

app = CommandGroup(help="Secrets of a project, which jobs ask for by name: list, set, delete.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The variable in which jobs get it, as HF_TOKEN.")]


@app.command("list")
def list_secrets(context: typer.Context, project: Project = None) -> None:
    """List the names of a project's secrets, oldest first. No value is ever shown."""
    session = session_of(context)
    secrets = list(session.client().secrets.list(session.project(project)))
    rows = [(secret.name, formats.ago(secret.updated_at)) for secret in secrets]
    session.out.table(secrets, ("SECRET", "SET"), rows, empty="The project has no secret.")


@app.command("set")
def set_secret(context: typer.Context, name: Name, project: Project = None) -> None:
    """Store or replace a secret. Its value is asked for, or read from stdin without the last line end.

    An argument would be seen in the process list and in the history of the shell.
    """
    session = session_of(context)
    project, client = session.project(project), session.client()
    secret = client.secrets.set(project, name, read_hidden("Value"))
    session.out.record(secret, [("Secret", secret.name), ("Project", project)])


@app.command("delete")
def delete_secret(context: typer.Context, name: Name, project: Project = None, *, yes: Yes = False) -> None:
    """Forget a secret. What asks for it from then on fails."""
    session = session_of(context)
    project, client = session.project(project), session.client()
    confirm(f"Delete the secret {name} of {project}?", yes=yes)
    client.secrets.delete(project, name)
    session.out.done(f"{project} has no secret {name} now.", as_json={"deleted": name, "project": project})
