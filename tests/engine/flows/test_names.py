"""What people call steps, runs, and the jobs and experiments of steps."""

from flows.engine.names import LONGEST_LABEL, attempt_label, run_label, step_label


def test_a_step_is_called_by_its_name_and_its_values_of_the_grid():
    given = {"epochs": 5, "C": 10, "lr": 0.001, "balanced": True}

    assert step_label("train", given, []) == "train"
    assert step_label("train", given, ["C"]) == "train C=10"
    assert step_label("train", given, ["lr", "balanced"]) == "train lr=0.001 balanced=true"


def test_the_name_of_a_step_with_long_values_is_cut():
    label = step_label("train", {"text": "x" * 500, "other": 1}, ["text", "other"])

    assert label == f"train text={'x' * 59}… other=1"
    assert len(step_label("train", {str(n): "y" * 50 for n in range(9)}, map(str, range(9)))) == LONGEST_LABEL


def test_its_job_is_called_by_flow_run_and_step_and_a_later_attempt_is_numbered():
    assert run_label("digits", 7) == "digits #7"
    assert attempt_label("digits", 7, "train C=10") == "digits #7 · train C=10"
    assert attempt_label("digits", 7, "train C=10", 2) == "digits #7 · train C=10 (attempt 2)"
