"""The oldest schema that is migrated. New databases are created from `store.schema` instead."""

revision = "0003"
down_revision = None
branch_labels = None
depends_on = None
