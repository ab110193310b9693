"""What alembic runs for each migration: on the connection that `migrate` holds, in its transaction."""

from alembic import context

attributes = context.config.attributes
context.configure(connection=attributes["connection"], version_table=attributes["version_table"])
context.run_migrations()
