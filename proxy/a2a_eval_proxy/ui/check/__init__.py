"""The screen of the check: runs it against the agent at a button, and shows its progress and its report."""
