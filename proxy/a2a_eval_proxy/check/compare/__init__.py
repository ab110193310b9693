"""Compares an agent direct and through a proxy: the same requests go both ways over every interface of its card.

A *side* is a way to the agent: direct, direct a second time, or through the proxy. Each has a conversation of its own.
What differs between the two direct sides *varies*: it says nothing about the proxy. *By design* is a difference that
docs/transparency.md announces. `pairing`, `differences` and `cards` are pure.
"""
