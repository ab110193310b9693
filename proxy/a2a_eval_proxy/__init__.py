"""Evaluation proxy and sidecar for A2A agents."""

__version__ = "0.1.0"
