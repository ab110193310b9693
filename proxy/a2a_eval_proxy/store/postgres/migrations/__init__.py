"""Alembic's folder: how the schema of a PostgreSQL store came to be, one revision a file."""
