"""`send`: one message to an agent, and what it does."""
