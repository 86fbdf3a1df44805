"""What can be done to a dataset, and the level of the project's role that allows it."""

from accounts.permissions import Level, Permission

VIEW = Permission("read datasets", Level.READ)
CREATE = Permission("create datasets", Level.WRITE)
EDIT = Permission("edit datasets", Level.WRITE)
COMMIT = Permission("commit to datasets", Level.WRITE)
MANAGE_BRANCHES = Permission("create and delete branches and tags", Level.WRITE)
MANAGE_QUERIES = Permission("create and delete queries", Level.WRITE)
CACHE = Permission("cache commits", Level.WRITE)
RENAME = Permission("rename datasets", Level.ADMIN)
DELETE = Permission("delete datasets", Level.ADMIN)
