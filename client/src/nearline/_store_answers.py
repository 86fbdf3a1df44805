"""What a store means by refusing a signed request. S3 servers say it in XML, our folder store as a problem in JSON."""

import re

from nearline import _problems, errors

_CODE, _MESSAGE = re.compile(r"<Code>(\w+)</Code>"), re.compile(r"<Message>([^<]*)</Message>")
_DENIALS = {400, 403}
_LONGEST_REASON = 300
_BROKEN = 500
_FULL = 507


def read_problem(status: int, text: str) -> errors.NearlineError:
    """Return the error that an answer of a store stands for; Unavailable when another attempt may cure it."""
    if refusal := _read_refusal(status, text):
        return refusal
    answer = f"The store answered {status}: {_describe(text)}"
    problem = _problems.read(status, text)
    if problem and (status == _FULL or isinstance(problem, errors.Unavailable)):
        return problem
    if status in _problems.PASSING or status >= _BROKEN:
        return errors.Unavailable(answer, code="client.store_busy")
    return problem or _problems.kind_of(status)(answer, code="client.store_refused")


def _read_refusal(status: int, text: str) -> errors.NearlineError | None:
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


def _describe(text: str) -> str:
    """Return what an answer says, in one line for people."""
    code, message = _parts_of(text)
    return (f"{code}: {message}" if code else message)[:_LONGEST_REASON] or "no reason"


def _parts_of(text: str) -> tuple[str, str]:
    code, message = _CODE.search(text), _MESSAGE.search(text)
    if code is None:
        return "", text.strip()
    return code[1], message[1] if message else ""
