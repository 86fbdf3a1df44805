"""What a store means by refusing a signed request. S3 servers say it in XML, our folder store as a problem in JSON."""

import re

from nearline import errors

_CODE, _MESSAGE = re.compile(r"<Code>(\w+)</Code>"), re.compile(r"<Message>([^<]*)</Message>")
_DENIALS = {400, 403}
_LONGEST_REASON = 300


def read_refusal(status: int, text: str) -> errors.NearlineError | None:
    """Return the error for a permission that came too late or too early; None when it is about something else."""
    code, message = _parts_of(text)
    if status not in _DENIALS:
        return None
    if code == "RequestTimeTooSkewed" or "not valid yet" in message.lower():
        return errors.Denied(
            "The clocks of the Nearline server and of its store differ by more than the store allows.",
            code="client.clock_skew",
            hint="Ask an admin to have both set by a time server.",
        )
    # S3 has no code of its own for an address that was used too late.
    if code == "ExpiredToken" or "expired" in message.lower():
        return errors.Denied(
            "The store's permission has expired.",
            code="datasets.signature_expired",
            hint="So did each new one: the clocks of the Nearline server and of its store may differ. Ask an admin.",
        )
    return None


def describe(text: str) -> str:
    """Return what an answer says, in one line for people."""
    code, message = _parts_of(text)
    return (f"{code}: {message}" if code else message)[:_LONGEST_REASON] or "no reason"


def _parts_of(text: str) -> tuple[str, str]:
    code, message = _CODE.search(text), _MESSAGE.search(text)
    if code is None:
        return "", text.strip()
    return code[1], message[1] if message else ""
