"""Other names: for files and folders of a dataset, and for the dataset itself."""

from typing import Annotated

import typer

from nearline.cli.asking import confirm
from nearline.cli.commands.data.target import Ref, target_of
from nearline.cli.options import Message, Yes
from nearline.cli.output import printable
from nearline.cli.session import session_of


def move(
    context: typer.Context,
    reference: Ref,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file, or a folder with all that is in it.")],
    to: Annotated[str, typer.Argument(metavar="NEW", help="Its new path in the dataset.")],
    message: Message = "",
) -> None:
    """Move or rename a file or a folder of a dataset, as one commit. No content is transferred."""
    session = session_of(context)
    made = session.client().datasets.rename_path(target_of(session, reference), path, to, message=message)
    session.out.record(made, [("Commit", made.short), ("Path", printable(to.strip("/"))), ("Message", made.message)])


def rename(
    context: typer.Context,
    reference: Ref,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its new name in its project.")],
    *,
    yes: Yes = False,
) -> None:
    """Give a dataset another name.

    References by the old one lead nowhere afterwards; linked folders follow after `nearline data set --url`.
    """
    session = session_of(context)
    target = target_of(session, reference)
    confirm(f"Rename {target.dataset} to {name}? Flows and folders that use the old name stop.", yes=yes)
    renamed = session.client().datasets.rename(target, name)
    session.out.record(renamed, [("Dataset", renamed.reference), ("Page", renamed.url)])
