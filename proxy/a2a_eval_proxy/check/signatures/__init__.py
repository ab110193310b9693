"""Verifies the signatures of an agent card: JWS (RFC 7515) over its canonical JSON (RFC 8785), A2A 1.0 section 8.4.

The extra `signing` installs what it needs.
"""
