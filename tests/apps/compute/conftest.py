from dataclasses import replace

import pytest

from compute import signals
from compute.models import Job
from tests.factories import compute as make


@pytest.fixture
def home(settings, tmp_path):
    settings.NEARLINE = replace(settings.NEARLINE, home=tmp_path)
    return tmp_path


@pytest.fixture
def scripted(db, home):
    """Return a resource and its scripted driver."""
    return make.make_resource(root=home / "scripted")


@pytest.fixture
def resource(scripted):
    return scripted[0]


@pytest.fixture
def driver(scripted):
    return scripted[1]


@pytest.fixture
def template(resource):
    return make.make_template(resource)


@pytest.fixture
def running(project, template) -> Job:
    """Return a job that runs."""
    [job] = make.submit(project, template, "train")
    make.start([job])
    job.refresh_from_db()
    return job


@pytest.fixture
def news(django_capture_on_commit_callbacks):
    """Return the batches of job ids that `job_changed` was sent with."""
    batches = []

    def note(job_ids, **_):
        batches.append(list(job_ids))

    signals.job_changed.connect(note)
    yield batches
    signals.job_changed.disconnect(note)
