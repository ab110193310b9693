"""Owns the data port, where clients connect, and for each agent what relays its traffic and captures its turns.

It is given settings, agents and the store. It hands on requests to the relay, and closed turns to be scored.
"""
