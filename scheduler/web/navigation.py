"""What this app adds to the shell: an entry of the rail."""

from web import navigation
from web.navigation import Entry, Group

navigation.add_entry(Entry("Quotas", "/quotas/", "scale", Group.PLACES, 30, ("/quotas/", "/forecasts/", "/analytics/")))
