"""A first suite, settings and a CI job for an agent, from one answer of it."""
