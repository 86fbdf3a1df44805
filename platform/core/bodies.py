"""What the bodies of requests share."""

from ninja import Schema
from pydantic import ConfigDict


class BodySchema(Schema):
    """A body, or a part of one. A key that it does not know is refused: ignored, it would be taken for done."""

    model_config = ConfigDict(extra="forbid")
