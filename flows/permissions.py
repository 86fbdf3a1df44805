"""What can be done to flows and runs."""

from accounts.permissions import Level, Permission

VIEW_FLOWS = Permission("view flows and runs", Level.READ)
PUSH_FLOW = Permission("push flows", Level.WRITE)
RUN_FLOW = Permission("run flows", Level.WRITE)
CANCEL_RUN = Permission("cancel runs", Level.WRITE)
DELETE_OWN_RUN = Permission("delete their own runs", Level.WRITE)
DELETE_ANY_RUN = Permission("delete the runs of others", Level.ADMIN)
DELETE_FLOW = Permission("delete flows", Level.ADMIN)
KEEP_OUTPUT = Permission("keep outputs in datasets", Level.WRITE)
