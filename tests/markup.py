"""Pages without the white space that a browser does not show."""

import re


def flat(html: str) -> str:
    """Write every run of white space as one space, and none beside a tag."""
    return re.sub(r"(?<=>) | (?=<)", "", " ".join(html.split()))
