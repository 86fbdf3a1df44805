"""How routes that read their body themselves say what it is."""

from typing import Any


def raw_body(media_type: str) -> dict[str, Any]:
    """Describe a body of bytes."""
    content = {media_type: {"schema": {"type": "string", "format": "binary", "contentMediaType": media_type}}}
    return {"requestBody": {"required": True, "content": content}}
