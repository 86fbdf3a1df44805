"""The web process as ASGI servers see it."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path[:0] = [str(ROOT), str(ROOT / "platform")]
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.core.asgi import get_asgi_application  # noqa: E402 (the path must be set first)

_django = get_asgi_application()

from django.conf import settings  # noqa: E402
from django.urls import get_resolver  # noqa: E402

from compute.web.connections_asgi import with_connections  # noqa: E402 (models must be loaded first)
from compute.web.port_pages_asgi import with_port_pages  # noqa: E402
from config import keys  # noqa: E402
from config.body_limits import with_body_limit, with_body_pace  # noqa: E402
from config.liveness import with_liveness, with_start_check  # noqa: E402
from config.proxies import with_proxies  # noqa: E402
from config.turns import Turns, with_turns  # noqa: E402
from core import memory  # noqa: E402
from datasets.web.store_views import with_store_door  # noqa: E402

_turns = Turns(settings.NEARLINE.requests_at_once, settings.NEARLINE.requests_waiting)
_in_turn = with_turns(_django, _turns)  # type: ignore[arg-type]  # Django's types are looser than ASGI's
_platform = with_liveness(with_connections(with_body_pace(with_store_door(with_body_limit(_in_turn)))))
_served = with_proxies(
    with_port_pages(_platform, settings.NEARLINE.port_pages_url, settings.NEARLINE.url),
    settings.NEARLINE.trusted_proxies,
)
application = with_start_check(_served, keys.check_keys)

_ = get_resolver().url_patterns  # loads all routes, which the first request would do else
memory.freeze_what_is_loaded()
