"""Which adapter serves which port in this process, chosen from the settings."""

from django.conf import settings

from core import doorbell


def wire() -> None:
    """Install the doorbell. Without a broker rings stay silent until `manage.py up` starts its threads."""
    if settings.NEARLINE.broker_url:
        from config.worker import CeleryDoorbell  # noqa: PLC0415 (Celery is loaded only where it is used)

        doorbell.install(CeleryDoorbell())
