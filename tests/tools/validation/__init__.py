"""Compares the verdicts of evaluators with verdicts that others made of public trajectories."""
