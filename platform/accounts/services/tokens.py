"""Personal access tokens and one-time sign-in links: made, shown once, checked by hash, revoked."""

import hashlib
import secrets
from dataclasses import replace
from datetime import datetime, timedelta

from django.db import transaction

from accounts import audit
from accounts.errors import NotSignedIn, TokenNotFound
from accounts.models import ApiToken, SignInLink, User
from accounts.permissions import Actor
from accounts.selectors import actor_of
from core import clock
from core.errors import InvalidInput
from core.outages import optional_write

TOKEN_PREFIX = "nl_"  # noqa: S105 (a prefix, so that secret scanners recognise the token)
_LAST_USED_STEP = timedelta(minutes=5)
_LINK_LIFE = timedelta(minutes=30)


@transaction.atomic
def create_token(*, actor: Actor, name: str, expires_at: datetime | None) -> tuple[ApiToken, str]:
    """Make a token of the actor's and return it with its secret, which is not kept and cannot be shown again.

    Who asks by a token that ends gets one that ends no later. Raises InvalidInput when it would have ended already.
    """
    if expires_at is not None and expires_at <= clock.now():
        raise InvalidInput("A token ends after now. Choose a later moment, or none.")
    expires_at = min(filter(None, (expires_at, actor.ends_at)), default=None)
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user_id=_user_id(actor), name=name, secret_sha256=_sha256(secret), expires_at=expires_at
    )
    audit.record(actor, "accounts.create_token", token)
    return token, secret


@transaction.atomic
def revoke_token(*, actor: Actor, token_id: str) -> None:
    """Make one of the actor's tokens worthless. Raises TokenNotFound."""
    token = ApiToken.objects.filter(pk=token_id, user_id=_user_id(actor), revoked_at=None).first()
    if token is None:
        raise TokenNotFound("You have no such token.")
    token.revoked_at = clock.now()
    token.save(update_fields=["revoked_at"])
    audit.record(actor, "accounts.revoke_token", token)


def authenticate(secret: str) -> Actor:
    """Return whom a token belongs to. Raises NotSignedIn when it is unknown, expired or revoked."""
    now = clock.now()
    token = ApiToken.objects.select_related("user").filter(secret_sha256=_sha256(secret), revoked_at=None).first()
    if token is None or not token.user.is_active or (token.expires_at is not None and token.expires_at <= now):
        raise NotSignedIn("This token is unknown, expired or revoked.")
    if token.last_used_at is None or now - token.last_used_at > _LAST_USED_STEP:
        with optional_write():
            ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return replace(actor_of(token.user), ends_at=token.expires_at)


@transaction.atomic
def create_sign_in_link(*, actor: Actor, user: User) -> str:
    """Return the secret of a link that signs `user` in once within 30 minutes. For the platform itself."""
    secret = secrets.token_urlsafe(32)
    link = SignInLink.objects.create(user=user, secret_sha256=_sha256(secret), expires_at=clock.now() + _LINK_LIFE)
    audit.record(actor, "accounts.create_sign_in_link", link)
    return secret


def redeem_sign_in_link(secret: str) -> User:
    """Return whom the link signs in, and spend it. Raises NotSignedIn when it was used, expired or never existed."""
    now = clock.now()
    links = SignInLink.objects.filter(
        secret_sha256=_sha256(secret), used_at=None, expires_at__gt=now, user__is_active=True
    )
    link = links.select_related("user").first()
    if link is None or links.filter(pk=link.pk).update(used_at=now) == 0:
        raise NotSignedIn("This sign-in link was used before or has expired.")
    return link.user


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _user_id(actor: Actor) -> int:
    if actor.user_id is None:
        raise NotSignedIn("Only a person can hold a token.")
    return actor.user_id
