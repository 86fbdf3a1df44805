"""What can be done to experiments."""

from accounts.permissions import Level, Permission

VIEW_EXPERIMENTS = Permission("view experiments", Level.READ)
RECORD = Permission("record experiments", Level.WRITE)
ANNOTATE = Permission("annotate experiments", Level.WRITE)
DELETE_OWN = Permission("delete their own experiments", Level.WRITE)
DELETE_ANY = Permission("delete the experiments of others", Level.ADMIN)
SAVE_VIEW = Permission("save views of experiments", Level.WRITE)
CHANGE_VIEW = Permission("rename or delete the views of others", Level.ADMIN)
