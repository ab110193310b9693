"""The tables of the job engine, procrastinate, as its release makes them.

Where a later procrastinate has migrations of its own after `LAST_MIGRATION`, they become a revision of ours.
"""

from alembic import op
from procrastinate.schema import SchemaManager

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

LAST_MIGRATION = "03.04.00_50_post_add_retry_failed_job_procedure.sql"


def upgrade() -> None:
    cursor = op.get_bind().connection.cursor()
    cursor.execute(SchemaManager.get_schema())  # many statements, with colons of its own: past SQLAlchemy's text()
    cursor.close()


def downgrade() -> None:
    raise NotImplementedError("the jobs stay: drop the database")
