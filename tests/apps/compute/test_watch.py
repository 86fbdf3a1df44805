import threading
import time

import pytest

from compute.services import watch
from tests.factories import compute as make


@pytest.mark.django_db(transaction=True)
def test_the_end_of_a_job_is_noticed_by_who_watches(home, project):
    resource, driver = make.make_resource(root=home / "scripted")
    [job] = make.submit(project, make.make_template(resource), "train")
    make.start([job])
    stop = threading.Event()
    watcher = threading.Thread(target=watch.watch_forever, args=(stop,))
    watcher.start()
    try:
        driver.finish("train")
        deadline = time.monotonic() + 60
        while make.state_of(job) == "running" and time.monotonic() < deadline:
            stop.wait(0.01)
    finally:
        stop.set()
        watcher.join(60)

    assert make.state_of(job) == "succeeded"
    assert not watcher.is_alive()
