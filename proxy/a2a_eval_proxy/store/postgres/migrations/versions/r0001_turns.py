"""Turns, results of whole conversations, and the answers of judges."""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    CREATE TABLE turns (
      seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      turn_id text NOT NULL UNIQUE,
      run text NOT NULL,
      case_id text,
      conversation_id text NOT NULL,
      status text NOT NULL,
      started_at timestamptz NOT NULL,
      ended_at timestamptz,
      body text NOT NULL,
      evaluations text NOT NULL DEFAULT '[]',
      passed integer NOT NULL DEFAULT 0,
      failed integer NOT NULL DEFAULT 0,
      errored integer NOT NULL DEFAULT 0,
      skipped integer NOT NULL DEFAULT 0,
      version integer NOT NULL DEFAULT 0,
      stored_at timestamptz NOT NULL DEFAULT now(),
      job_id bigint
    )
    """,
    "CREATE INDEX turns_run ON turns (left(run, 128), seq)",
    "CREATE INDEX turns_conversation ON turns (left(conversation_id, 128), seq)",
    "CREATE INDEX turns_case ON turns (left(case_id, 128), seq) WHERE case_id IS NOT NULL",
    "CREATE INDEX turns_pending ON turns (seq) WHERE status = 'pending'",
    """
    CREATE TABLE conversations (
      key text PRIMARY KEY,
      run text NOT NULL,
      conversation_id text NOT NULL,
      case_id text NOT NULL,
      turns integer NOT NULL,
      evaluations text NOT NULL,
      passed integer NOT NULL DEFAULT 0,
      failed integer NOT NULL DEFAULT 0,
      errored integer NOT NULL DEFAULT 0,
      skipped integer NOT NULL DEFAULT 0
    )
    """,
    "CREATE INDEX conversations_run ON conversations (left(run, 128))",
    "CREATE INDEX conversations_id ON conversations (left(conversation_id, 128))",
    "CREATE TABLE judge_answers (key text PRIMARY KEY, entry text NOT NULL)",
    "COMMENT ON COLUMN turns.version IS 'how often its results were written'",
    "COMMENT ON COLUMN turns.job_id IS 'the job of the workers that scores it, where one does'",
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    op.execute("DROP TABLE turns, conversations, judge_answers")
