"""What people may be called, and how somebody without a password gets in."""

from django.db import transaction

from accounts import audit
from accounts.actor import Actor
from accounts.errors import NotSignedIn, PersonDisabled
from accounts.models import User
from accounts.permissions import require_site_admin
from accounts.selectors import get_person
from accounts.services import tokens


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


def make_sign_in_link(*, actor: Actor, username: str) -> str:
    """Return the secret of a link that signs a person in once within 30 minutes.

    Raises UserNotFound and PersonDisabled.
    """
    require_site_admin(actor, "make sign-in links")
    person = get_person(actor=actor, username=username)
    if not person.is_active:
        raise PersonDisabled(f"{username} is disabled and cannot sign in.")
    return tokens.create_sign_in_link(actor=actor, user=person)
