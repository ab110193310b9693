"""A sample agent, a suite for it, and `demo`, which shows both in one process.

`python -m a2a_eval_proxy.features.demo.agent` runs the agent alone.
"""
