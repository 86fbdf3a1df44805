import pytest

from datasets.engine.queries import Conditions
from datasets.models import Commit
from datasets.services import queries
from flows.errors import InvalidFlow, InvalidParameters
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


def test_a_query_is_asked_of_the_commit_that_a_run_is_given(member, project, version):
    _, (first, second) = version
    ones = Conditions(globs=("*",))
    queries.create_query(actor=member, dataset=first.dataset, name="ones", conditions=ones)
    asking = flows.save_version(
        actor=member, project=project, text=FLOW.replace("@main", "@main:ones").replace("f\n", "g\n")
    )

    usual = runs.start_run(actor=member, version=asking, parameters={})
    pinned = runs.start_run(actor=member, version=asking, parameters={}, data={"team-a/digits@main:ones": first.pk})

    read = [Commit.objects.get(pk=run.datasets["team-a/digits@main:ones"]["commit"]) for run in (usual, pinned)]
    assert [commit.parent for commit in read] == [second, first]
    assert [commit.source for commit in read] == ["query", "query"]


def test_a_flow_that_reads_a_query_that_is_not_there_is_refused(member, project, version):
    with pytest.raises(InvalidFlow, match="digits has no query called 'none'"):
        flows.save_version(actor=member, project=project, text=FLOW.replace("@main", "@main:none"))


def test_a_commit_of_what_no_step_reads_is_refused(member, version):
    with pytest.raises(InvalidParameters, match="No step of this flow reads team-a/other"):
        runs.start_run(actor=member, version=version[0], parameters={}, data={"team-a/other": "1a2b3c"})

    assert Run.objects.count() == 0
