"""Every foreseen failure has a code of its own, and the code says which app it comes from."""

from collections import Counter

import pytest

from core.errors import PlatformError
from docs import generate

ERRORS = generate.error_classes()
# What experiments refused while they belonged to flows: programs know these codes.
OF_FLOWS = {
    "flows.artifact_not_found",
    "flows.experiment_not_found",
    "flows.invalid_column",
    "flows.invalid_filter",
    "flows.note_changed",
    "flows.view_exists",
    "flows.view_not_found",
}
HEIRS = [error for error in ERRORS if error is not PlatformError]


def test_codes_are_unique():
    counts = Counter(error.code for error in ERRORS)

    assert {code: count for code, count in counts.items() if count > 1} == {}


@pytest.mark.parametrize("error", HEIRS, ids=lambda error: error.__name__)
def test_a_code_starts_with_the_app_and_the_class_says_what_happened(error):
    app, _, rest = error.code.partition(".")

    assert app == ("flows" if error.code in OF_FLOWS else error.__module__.partition(".")[0])
    assert rest.replace("_", "").isalnum()
    assert error.__doc__


def test_every_class_that_is_raised_has_a_code_of_its_own():
    assert sorted(error.__qualname__ for error in generate.heirs_without_code() if not error.__subclasses__()) == []


@pytest.mark.parametrize("error", HEIRS, ids=lambda error: error.__name__)
def test_every_code_is_in_the_reference(error):
    assert f"| {error.code} |" in (generate.REFERENCE / "errors.md").read_text()
