"""Which adapter serves which port in this process, chosen from the settings."""

from django.conf import settings
from django.utils.module_loading import import_string

from core import doorbell
from core.local_doorbell import LocalDoorbell


def wire() -> None:
    """Install the doorbell. Without a broker rings stay silent until `manage.py up` starts its threads."""
    if settings.NEARLINE.broker_url:
        doorbell.install(import_string(settings.DOORBELLS["broker"])())


def make_lanes() -> LocalDoorbell:
    """Return the threads that are lanes and doorbell in one, for a process that is the whole product."""
    lanes: LocalDoorbell = import_string(settings.DOORBELLS["process"])()
    return lanes
