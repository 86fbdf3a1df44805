import pytest

from flows.errors import InvalidParameters
from flows.models import Run
from flows.services import flows, runs
from tests.factories.datasets import commit_files, make_dataset, make_store
from tests.factories.flows import World

FLOW = "flow: f\nsteps: [{name: a, command: c, data: [{dataset: team-a/digits@main}]}]"


@pytest.fixture
def version(world: World, member, project, tmp_path):
    make_store(tmp_path / "store")
    dataset = make_dataset(member, project, "digits")
    commits = [commit_files(member, dataset, {"a": content}) for content in (b"one", b"two")]
    return flows.save_version(actor=member, project=project, text=FLOW), commits


def test_a_run_reads_the_commits_that_it_is_given(member, version):
    version, (first, second) = version

    usual = runs.start_run(actor=member, version=version, parameters={})
    pinned = runs.start_run(actor=member, version=version, parameters={}, data={"team-a/digits@main": first.pk[:12]})

    assert [run.datasets["team-a/digits@main"]["commit"] for run in (usual, pinned)] == [second.pk, first.pk]
    assert pinned.datasets["team-a/digits@main"]["dataset"] == "team-a/digits"


def test_a_commit_of_what_no_step_reads_is_refused(member, version):
    with pytest.raises(InvalidParameters, match="No step of this flow reads team-a/other"):
        runs.start_run(actor=member, version=version[0], parameters={}, data={"team-a/other": "1a2b3c"})

    assert Run.objects.count() == 0
