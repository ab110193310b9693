"""Takes over into a suite what the agent did in a run."""
