"""Which adapter serves which port in this process, chosen from the settings."""

from django.conf import settings
from django.utils.module_loading import import_string

from compute.adapters import drivers
from config.host_calls import RedisHostCalls
from core import hosts, remote_hosts, tasks
from core.kubernetes import connections
from core.local_queue import LocalQueue


def wire() -> None:
    """Install the task queue, which needs a broker or `manage.py up`, and what reaches clusters and hosts."""
    connections.install(drivers.connect)
    remote_hosts.install(drivers.connect_host)
    if settings.NEARLINE.broker_url:
        tasks.install(import_string(settings.TASK_QUEUES["broker"])())
        hosts.install_calls(RedisHostCalls(settings.NEARLINE.broker_url))


def make_local_queue() -> LocalQueue:
    """Return the queue and its threads for a process that is the whole product."""
    queue: LocalQueue = import_string(settings.TASK_QUEUES["process"])()
    return queue
