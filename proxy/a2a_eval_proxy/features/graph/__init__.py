"""Who asked whom: finds for each turn the turn that caused it, with evidence, and makes trees of turns.

It owns the rules of evidence (`edges`), and no data. It is given a store, in which each turn has its trace context, the
ids that it names (`TurnLinks`) and its spans. It hands on trees (`trees`), made anew each time: what is stored later
changes every tree that it concerns.
"""
