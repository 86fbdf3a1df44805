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
        ("job_claims", "scans:rx", "'scans:rx' cannot be read. Write it like scans:ro, scratch."),
        ("job_claims", "nl-pool-1", "nl-pool-1 is a claim of Nearline itself, which jobs do not mount by name."),
        ("tolerations", "a b c", "'a b c' cannot be read. Write it like gpu=only:NoSchedule."),
    ],
)
def test_a_field_that_cannot_be_read_says_how_it_is_written(field, value, words):
    assert KubernetesForm({**NEEDED, field: value}).errors == {field: [words]}


def test_claims_for_jobs_are_kept_as_they_are_written():
    form = KubernetesForm({**NEEDED, "job_claims": "scans:ro, scratch"})

    assert form.is_valid()
    assert form.read_config("lab")["job_claims"] == ["scans:ro", "scratch"]
