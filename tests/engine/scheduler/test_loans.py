"""Who uses whose quota: first what nobody is guaranteed, then the same department, then others."""

from scheduler.engine.standing import Holding, Loan, pair_loans


def test_what_no_quota_covers_is_used_first():
    holdings = [Holding("a", None, 4000, 1000), Holding("b", None, 2000, 5000)]

    assert pair_loans(holdings, 8000) == [Loan(None, "b", 2000), Loan("a", "b", 1000)]


def test_the_same_department_lends_before_others():
    holdings = [
        Holding("far", "sales", 2000, 0),
        Holding("near", "research", 1000, 0),
        Holding("b", "research", 1000, 3500),
    ]

    assert pair_loans(holdings, 4000) == [Loan("near", "b", 1000), Loan("far", "b", 1500)]


def test_what_is_held_of_nodes_that_are_gone_has_no_lender():
    assert pair_loans([Holding("b", None, 1000, 3000)], 1000) == []


def test_within_the_quotas_nothing_is_lent():
    assert pair_loans([Holding("a", None, 2000, 2000), Holding("b", None, 2000, 1000)], 4000) == []
