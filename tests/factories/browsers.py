"""Browsers of people."""

from django.test import Client

from accounts.actor import Actor
from accounts.models import User


def browser_of(actor: Actor) -> Client:
    """Return a browser in which a person is signed in."""
    client = Client()
    client.force_login(User.objects.get(pk=actor.user_id))
    return client
