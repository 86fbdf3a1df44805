"""What is told about nodes and jobs arrives as it was, whatever their facts are."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from compute.adapters.ssh import wire
from compute.engine.job_spec import Tree
from compute.engine.ports import CheckpointFolder, JobReport, NodeFacts
from tests.contracts.compute_driver import make_launch


def sent(value):
    return wire.read(wire.frame({"value": value})[wire.LENGTH_BYTES :])["value"]


@given(st.lists(st.builds(NodeFacts, labels=st.dictionaries(st.text(), st.text()))))
def test_nodes_arrive_as_they_were(nodes):
    assert wire.nodes_from_json(sent(wire.nodes_to_json(nodes))) == nodes


@given(st.none() | st.builds(CheckpointFolder, tree=st.none() | st.builds(Tree)))
def test_a_launch_arrives_as_it_was_with_its_checkpoint_folder(checkpoint):
    launch = replace(make_launch("train"), checkpoint=checkpoint)

    assert wire.launch_from_json(sent(wire.launch_to_json(launch))) == launch


@given(st.from_type(JobReport))
def test_reports_arrive_as_they_were(report):
    assert wire.report_from_json(sent(wire.report_to_json(report))) == report
