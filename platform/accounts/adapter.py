"""How allauth behaves here: people are added by an admin, and nobody signs up by themselves."""

from typing import NoReturn

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.internal import ratelimit
from allauth.core.internal.ratelimit import RateLimitUsage
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest
from django.urls import reverse

from accounts import audit
from accounts.errors import PersonDisabled
from accounts.models import User
from accounts.selectors import actor_of
from accounts.web.requests import find_browser

_LIMITS = {
    "login_failed": "5/5m/key",
    "login_failed_elsewhere": "5/5m/key,20/5m/ip",
    "login_failed_everywhere": "30/h/key",
}
"""Wrong passwords: of a browser that the person knows; of an account from one address; of an account in all."""


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth carries no types
    """Local accounts without sign-up and without notes about having signed in; a new password is noted and told."""

    def is_open_for_signup(self, _request: HttpRequest) -> bool:
        """Nobody may add themselves."""
        return False

    def add_message(self, *_args: object, **_kwargs: object) -> None:
        """Say nothing: the page that follows shows who is signed in."""

    def pre_authenticate(self, request: HttpRequest, **credentials: str) -> None:
        """Count this attempt until it has succeeded. Raises ValidationError when there were too many.

        Whoever tries passwords from elsewhere cannot lock the owner out: they are counted by account and address,
        and a browser that the owner has used before is counted by itself and obeys no other limit.
        """
        username = credentials.get("username", "").lower()
        browser = find_browser(request, username)
        limits = [("login_failed", f"{username}:{browser}")]
        if browser is None:
            limits = [
                ("login_failed_elsewhere", f"{username}:{ratelimit.get_ip(request)}"),
                ("login_failed_everywhere", username),
            ]
        # Given back by allauth as soon as the password turns out to be right.
        self._login_failed_rl_usage = RateLimitUsage([])
        for action, key in limits:
            usage = ratelimit.consume(request, app="allauth.account", action=action, config=_LIMITS, key=key)
            if usage is None:
                raise self.validation_error("too_many_login_attempts")
            self._login_failed_rl_usage.usage.extend(usage.usage)

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
