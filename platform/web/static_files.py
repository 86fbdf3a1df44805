"""Static files out of the web process: WhiteNoise, with answers that an asynchronous server can stream."""

from django.core.handlers.asgi import ASGIRequest
from django.http import FileResponse, HttpRequest
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from core.streaming import asynchronously

_CHUNK_BYTES = 1 << 18


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]  # whitenoise has no types
    """Answers for static files. WhiteNoise alone makes Django read a file whole and warn about it under ASGI."""

    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> FileResponse:
        """Return the answer to a request for a file."""
        response: FileResponse = WhiteNoiseMiddleware.serve(static_file, request)
        response.block_size = _CHUNK_BYTES
        if isinstance(request, ASGIRequest):
            response.streaming_content = asynchronously(iter(response))
        return response
