"""How allauth behaves here: people are added by an admin, and nobody signs up by themselves."""

from typing import NoReturn

from allauth.account.adapter import DefaultAccountAdapter
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest
from django.urls import reverse

from accounts import audit
from accounts.errors import PersonDisabled
from accounts.models import User
from accounts.selectors import actor_of


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth carries no types
    """Local accounts without sign-up and without notes about having signed in; a new password is noted and told."""

    def is_open_for_signup(self, _request: HttpRequest) -> bool:
        """Nobody may add themselves."""
        return False

    def add_message(self, *_args: object, **_kwargs: object) -> None:
        """Say nothing: the page that follows shows who is signed in."""

    def respond_user_inactive(self, _request: HttpRequest, user: User) -> NoReturn:
        """Say why the right password of a disabled person does not sign them in. Raises PersonDisabled."""
        raise PersonDisabled(f"The account {user.username} is disabled.")

    def set_password(self, user: User, password: str) -> None:
        """Keep a password that a person chose, and note that they did."""
        with transaction.atomic():
            super().set_password(user, password)
            audit.record(actor_of(user), "accounts.set_password", user)

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        """Go back to the profile, and say there that it is done."""
        messages.success(request, "The new password holds from now on. Your other browsers are signed out.")
        return reverse("accounts:profile")
