"""From a closed turn to a stored, scored one, concurrently with traffic.

It owns a turn from its end to its results: the *pipeline* has it redacted, stored, completed by its spans and scored,
by the cases and evaluators of a suite (*case book*, *scorer*). It is given closed turns, the suite and rules of their
agent, and the evidence of traces. It hands turns and results to the store, and tells listeners what was closed and
scored.
"""
