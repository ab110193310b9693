"""When answers of judges were kept, so that they can be deleted with the turns they are about."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE judge_answers ADD COLUMN kept_at timestamptz NOT NULL DEFAULT now()")


def downgrade() -> None:
    op.execute("ALTER TABLE judge_answers DROP COLUMN kept_at")
