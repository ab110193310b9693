"""Who asked whom: finds for each turn the turn that caused it, with evidence, and makes trees of turns.

`edges` decides, from facts that the store keeps with each turn (`TurnLinks`); `trees` reads these. Nothing that is
decided is stored: what becomes known later changes every tree that it concerns.
"""
