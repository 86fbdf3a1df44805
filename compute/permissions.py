"""What can be done to a project's jobs. Resources and templates belong to the site and need a site admin."""

from accounts.permissions import Level, Permission

VIEW_JOBS = Permission("view jobs", Level.READ)
SUBMIT_JOBS = Permission("start jobs", Level.WRITE)
CANCEL_JOBS = Permission("cancel jobs", Level.WRITE)
