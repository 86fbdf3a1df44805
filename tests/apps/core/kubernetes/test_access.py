"""What an account may not do is said in one sentence."""

from core.kubernetes.access import find_missing

RULES = (("", "pods", ("get", "watch", "create")), ("", "pods/log", ("get",)), ("", "secrets", ("get",)))


def review(*, allowed):
    return 201, {"status": {"allowed": allowed}}


def test_an_account_that_may_all_lacks_nothing(server, gateway):
    server.answers = [review(allowed=True)] * 5

    assert find_missing(gateway, RULES, "jobs") == ""


def test_all_that_is_missing_is_one_sentence(server, gateway):
    server.answers = [review(allowed=each) for each in (False, True, False, True, False)]

    assert find_missing(gateway, RULES) == (
        "The account may not get/create pods, get secrets in the whole cluster. "
        "deploy/rbac/nearline.yaml holds all that is needed."
    )
