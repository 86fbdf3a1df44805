"""The wait of a job, drawn."""

from django import template

from compute.engine.outlook import Outlook
from compute.engine.wait_axis import WaitAxis, axis_of
from core import clock

register = template.Library()


@register.filter
def axis(outlook: Outlook) -> WaitAxis | None:
    """Return the outlook on one axis of time; None: nothing is known of its times."""
    return axis_of(outlook, now=clock.now())
