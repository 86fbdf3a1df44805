"""What the form of a cluster says of fields that cannot be read."""

import pytest

from compute.adapters.kubernetes.kind import KIND, KubernetesForm

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


def test_what_is_changed_later_is_shown_as_it_was_written_and_read_to_the_same_again():
    written = {
        "image_pull_secrets": "registry, mirror",
        "node_selector": "pool=train, zone=a",
        "tolerations": "gpu=only:NoSchedule, spot, slow=:NoExecute",
        "job_claims": "scans:ro, scratch",
        "checkpoint_bytes": "2.5 GB",
        "output_minutes": 30,
    }
    form = KubernetesForm({**NEEDED, **written})
    assert form.is_valid()
    config = form.read_config("lab")
    names = KIND.changeable(config)

    shown = KubernetesForm.of_fields(names)(initial=KubernetesForm.write_fields(config))
    values = {name: shown[name].value() for name in names}
    again = KubernetesForm.of_fields(names)({name: value or "" for name, value in values.items()})

    assert {name: values[name] for name in written} == written
    assert again.is_valid()
    assert {name: value for name, value in again.cleaned_data.items() if value} == {
        name: config[name] for name in names if name in config
    }


def test_the_form_of_some_settings_reads_each_as_the_whole_form_does():
    form = KubernetesForm.of_fields(["tolerations", "job_claims"])

    assert form({"tolerations": "a b c", "job_claims": "nl-pool-1"}).errors == {
        "tolerations": ["'a b c' cannot be read. Write it like gpu=only:NoSchedule."],
        "job_claims": ["nl-pool-1 is a claim of Nearline itself, which jobs do not mount by name."],
    }
