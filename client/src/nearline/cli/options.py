"""Options that several commands share, worded once."""

from typing import Annotated

import typer

Project = Annotated[str | None, typer.Option("--project", help="Project; else NEARLINE_PROJECT or the profile's.")]
Limit = Annotated[int, typer.Option("--limit", "-l", min=1, help="Show at most so many.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end, and let the exit code tell how it was.")]
Timeout = Annotated[float | None, typer.Option("--timeout", min=0, metavar="SECONDS", help="Give up waiting after.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Site = Annotated[str | None, typer.Option("--site", "-d", help="Cache site; the only one where there is one.")]
Message = Annotated[str, typer.Option("--message", "-m", help="What the commit is about.")]
