"""Checks that an agent implements the extension correctly, and declares it in its card.

The room is given the URL of an agent and a `ProbeClient` for it. `dialogue` sends the same messages over every
interface of the card (`requests`, `client`) and keeps the answers (`record`); `rules` and `traffic_rules` judge them.
`checking` hands on a `CheckReport`, which `report` writes.
"""
