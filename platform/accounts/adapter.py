"""How allauth behaves here: people are added by an admin, and nobody signs up by themselves."""

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth carries no types
    """Local accounts without sign-up and without notes about having signed in."""

    def is_open_for_signup(self, _request: HttpRequest) -> bool:
        """Nobody may add themselves."""
        return False

    def add_message(self, *_args: object, **_kwargs: object) -> None:
        """Say nothing: the page that follows shows who is signed in."""
