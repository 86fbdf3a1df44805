"""Browsers of people."""

from django.test import Client

from accounts.models import User
from accounts.permissions import Actor


def browser_of(actor: Actor) -> Client:
    """Return a browser in which a person is signed in."""
    client = Client()
    client.force_login(User.objects.get(pk=actor.user_id))
    return client
