"""What can be done to flows and runs."""

from accounts.permissions import Level, Permission

VIEW_FLOWS = Permission("view flows and runs", Level.READ)
PUSH_FLOW = Permission("push flows", Level.WRITE)
RUN_FLOW = Permission("run flows", Level.WRITE)
CANCEL_RUN = Permission("cancel runs", Level.WRITE)
KEEP_OUTPUT = Permission("keep outputs in datasets", Level.WRITE)
