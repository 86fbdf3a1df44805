"""The HTTP API: mounts every app's routes under /api/v1."""

from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest
from ninja import NinjaAPI
from ninja.errors import ValidationError, ValidationErrorContext
from ninja.openapi.schema import OpenAPISchema
from ninja.parser import Parser
from ninja.renderers import JSONRenderer
from ninja.responses import NinjaJSONEncoder

from accounts.api import routes as accounts_routes
from accounts.api.auth import authenticate
from compute.api import attempt_routes
from compute.api import routes as compute_routes
from config import api_document, api_errors
from core import bounds
from datasets.api import (
    cache_routes,
    copy_routes,
    early_routes,
    import_job_routes,
    in_place_routes,
    part_routes,
    query_routes,
    storage_routes,
    tree_routes,
)
from datasets.api import routes as dataset_routes
from experiments.api import routes as experiment_routes
from experiments.api import saved_view_routes
from flows.api import routes as flow_routes
from scheduler.api import routes as scheduler_routes

_MOST_FAULTS = 1000


class BoundedParser(Parser):
    """Takes from a body only what can be stored, whatever the route."""

    def parse_body(self, request: HttpRequest) -> object:  # type: ignore[override]  # JSON is not always a mapping
        """Return what the body holds. Raises InvalidInput."""
        return bounds.read_json(request.body)


class _Encoder(NinjaJSONEncoder):
    def default(self, value: Any) -> Any:
        if isinstance(value, datetime):
            return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return super().default(value)


class Renderer(JSONRenderer):
    """Writes each time with its milliseconds; Django leaves them out at a whole second, which some readers refuse."""

    encoder_class = _Encoder


class Api(NinjaAPI):
    """An API whose description also says what all routes share."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._descriptions: dict[str, OpenAPISchema] = {}

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        """Return the description, which nobody may change: it takes a second to make, and is made once."""
        prefix = self.get_root_path(path_params or {}) if path_prefix is None else path_prefix
        if prefix not in self._descriptions:
            self._descriptions[prefix] = api_document.complete(super().get_openapi_schema(path_prefix=prefix))
        return self._descriptions[prefix]

    def validation_error_from_error_contexts(
        self, error_contexts: list[ValidationErrorContext[Any]]
    ) -> ValidationError:
        """Return what is wrong with a request: each fault, or only their number where to name them would take long."""
        faults = sum(context.pydantic_validation_error.error_count() for context in error_contexts)
        if faults <= _MOST_FAULTS:
            return super().validation_error_from_error_contexts(error_contexts)
        return ValidationError([{"type": "too_many", "loc": ("body",), "msg": f"It has {faults:,} faults."}])


api = Api(
    title="Nearline",
    version="1",
    description="Versioned datasets next to the GPUs that train on them, and the flows that run there.",
    auth=authenticate,
    parser=BoundedParser(),
    renderer=Renderer(),
    docs_url="/docs",
    urls_namespace="api",
)
api_errors.install(api)
api.add_router("", accounts_routes.router, tags=["accounts"])
api.add_router("", dataset_routes.router, tags=["datasets"])
api.add_router("", part_routes.router, tags=["datasets"])
api.add_router("", query_routes.router, tags=["datasets"])
api.add_router("", storage_routes.router, tags=["datasets"])
api.add_router("", tree_routes.router, tags=["datasets"])
api.add_router("", in_place_routes.router, tags=["datasets"])
api.add_router("", cache_routes.router, tags=["cache"])
api.add_router("", copy_routes.router, tags=["cache"])
api.add_router("", import_job_routes.router, tags=["cache"])
api.add_router("", early_routes.router, tags=["cache"])
api.add_router("", compute_routes.router, tags=["compute"])
api.add_router("", attempt_routes.router, tags=["compute"])
api.add_router("", scheduler_routes.router, tags=["scheduler"])
api.add_router("", flow_routes.router, tags=["flows"])
api.add_router("", experiment_routes.router, tags=["experiments"])
api.add_router("", saved_view_routes.router, tags=["experiments"])
