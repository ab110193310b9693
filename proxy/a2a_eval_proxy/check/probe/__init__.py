"""Talks to an agent and records every request and answer.

A *record* holds the card and the exchanges of each *interface* (binding and protocol version). The *dialogue* is the
sequence of messages; *responses* reads events and extension data out of the answers.
"""
