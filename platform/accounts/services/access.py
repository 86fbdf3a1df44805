"""Who may sign in, and what people are called: they get a link, are signed out everywhere, disabled and enabled."""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import F

from accounts import audit, running_work
from accounts.errors import LastAdmin, NotSignedIn, PersonDisabled
from accounts.models import ApiToken, SignInLink, User
from accounts.permissions import Actor, require_site_admin
from accounts.running_work import WorkItem
from accounts.selectors import get_person
from accounts.services import tokens
from core import clock


def make_sign_in_link(*, actor: Actor, username: str) -> str:
    """Return the secret of a link that signs a person in once within 30 minutes.

    Raises UserNotFound and PersonDisabled.
    """
    require_site_admin(actor, "make sign-in links")
    person = get_person(actor=actor, username=username)
    if not person.is_active:
        raise PersonDisabled(f"{username} is disabled and cannot sign in.")
    return tokens.create_sign_in_link(actor=actor, user=person)


@transaction.atomic
def disable_person(*, actor: Actor, username: str, stop_work: bool = False) -> Sequence[WorkItem]:
    """Sign a person out everywhere at once and for good, and return what runs for them.

    Their work goes on unless `stop_work` cancels it. Raises UserNotFound and LastAdmin.
    """
    require_site_admin(actor, "disable people")
    user = get_person(actor=actor, username=username)
    if user.is_superuser and user.is_active:
        _check_admin_remains(user)
    User.objects.filter(pk=user.pk).update(is_active=False)
    _end_sessions(user)
    _revoke_tokens(user)
    work = running_work.list_work([username])
    audit.record(actor, "accounts.disable_person", user, running=len(work), stopped=stop_work)
    if stop_work:
        running_work.stop_work(actor=actor, username=username)
    return work


@transaction.atomic
def enable_person(*, actor: Actor, username: str) -> User:
    """Let a person sign in again, with their password or a new link. Their tokens stay revoked. Raises UserNotFound."""
    require_site_admin(actor, "enable people")
    user = get_person(actor=actor, username=username)
    user.is_active = True
    user.save(update_fields=["is_active"])
    audit.record(actor, "accounts.enable_person", user)
    return user


@transaction.atomic
def sign_out_everywhere(*, actor: Actor, username: str, revoke_tokens: bool = False) -> None:
    """End every session and sign-in link of a person, and their tokens where asked for. One's own, or as site admin.

    Raises UserNotFound.
    """
    user = get_person(actor=actor, username=username)
    _end_sessions(user)
    if revoke_tokens:
        _revoke_tokens(user)
    audit.record(actor, "accounts.sign_out_everywhere", user, tokens=revoke_tokens)


@transaction.atomic
def set_own_name(*, actor: Actor, first_name: str, last_name: str) -> User:
    """Change what the actor is called on pages. The name to sign in with stays."""
    user = User.objects.filter(pk=actor.user_id or 0).first()
    if user is None:
        raise NotSignedIn("Only a person has a name.")
    user.first_name, user.last_name = first_name.strip()[:150], last_name.strip()[:150]
    user.save(update_fields=["first_name", "last_name"])
    audit.record(actor, "accounts.set_own_name", user)
    return user


def _end_sessions(user: User) -> None:
    User.objects.filter(pk=user.pk).update(sign_out_count=F("sign_out_count") + 1)
    SignInLink.objects.filter(user=user, used_at=None).update(used_at=clock.now())


def _revoke_tokens(user: User) -> None:
    ApiToken.objects.filter(user=user, revoked_at=None).update(revoked_at=clock.now())


def _check_admin_remains(user: User) -> None:
    admins = User.objects.select_for_update().filter(is_superuser=True, is_active=True).order_by("pk")
    if not any(admin.pk != user.pk for admin in admins):
        raise LastAdmin(f"{user.username} is the last site admin who can sign in.")
