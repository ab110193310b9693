"""Turns that are still open, and the task of each turn: another process may continue them."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_STATEMENTS = (
    "ALTER TABLE turns ADD COLUMN task_id text NOT NULL DEFAULT ''",
    "ALTER TABLE turns ADD COLUMN heard_at timestamptz NOT NULL DEFAULT now()",
    # Only recent turns get their task: older tasks do not go on. Read as text, since JSON with \\u0000 cannot be cast.
    r"""
    UPDATE turns SET task_id = coalesce(substring(body from '"task_id"\: ?"([^"\\]*)"'), '')
     WHERE stored_at > now() - interval '7 days'
    """,
    "CREATE INDEX turns_task ON turns (left(task_id, 128), seq) WHERE task_id != ''",
    "CREATE INDEX turns_open ON turns (heard_at) WHERE status = 'open'",
    "COMMENT ON COLUMN turns.heard_at IS 'when a process last had news of it, while it is open'",
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    op.execute("ALTER TABLE turns DROP COLUMN task_id, DROP COLUMN heard_at")
