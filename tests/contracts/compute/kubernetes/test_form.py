"""What the form of a cluster says of fields that cannot be read."""

import pytest

from compute.adapters.kubernetes.kind import KubernetesForm

NEEDED = {"kubeconfig": "{}", "agent_image": "nearline:1"}


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        (
            "namespace",
            "No Where",
            "Lower-case letters, digits, dashes and dots, with a letter or a digit at both ends.",
        ),
        ("node_selector", "zone=a, pool", "'pool' cannot be read. Write it like pool=train."),
        ("tolerations", "a b c", "'a b c' cannot be read. Write it like gpu=only:NoSchedule."),
    ],
)
def test_a_field_that_cannot_be_read_says_how_it_is_written(field, value, words):
    assert KubernetesForm({**NEEDED, field: value}).errors == {field: [words]}
