"""What can be done to experiments."""

from accounts.permissions import Level, Permission

VIEW_EXPERIMENTS = Permission("view experiments", Level.READ)
RECORD = Permission("record experiments", Level.WRITE)
ANNOTATE = Permission("annotate experiments", Level.WRITE)
SAVE_VIEW = Permission("save views of experiments", Level.WRITE)
DELETE_VIEW = Permission("delete the views of others", Level.ADMIN)
