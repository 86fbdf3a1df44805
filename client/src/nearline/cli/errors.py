"""How a failure reads: what happened and why, then what to do next; never a traceback."""

import errno
import json
import os

from nearline.cli.output import BAD, printable, say
from nearline.errors import Failed, NearlineError, hint_for


def report(error: NearlineError, *, as_json: bool) -> None:
    """Write a failure to stderr, as JSON when the command speaks JSON."""
    if as_json:
        say(json.dumps(error.to_json(), default=str))
        return
    say(f"{BAD} {printable_lines(error.message)}")
    if error.hint:
        say(f"hint: {printable_lines(error.hint)}")


def failure_of(error: OSError) -> Failed:
    """Return what the system refused, as a failure."""
    reason = error.strerror or str(error)
    # Of two names, as of a link, the second is the one to be made.
    name = error.filename2 or error.filename
    if not name and error.errno == errno.ENOENT:
        # Only what asks for the folder one stands in has no name to give.
        return Failed("The folder that you are in was removed.", hint="Go to one that is there: cd DIR.")
    text, hint = os.fsdecode(name) if isinstance(name, bytes) else name, hint_for(error)
    message = f"'{printable(text)}' cannot be used: {reason}." if text else f"{reason}."
    return Failed(message, code="client.local_file" if text or hint else None, hint=hint)


def printable_lines(text: str) -> str:
    """Return text whose line breaks stay and whose other control characters are escaped."""
    return "\n".join(printable(line) for line in text.split("\n"))
