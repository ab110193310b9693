"""From a closed turn to a stored, scored one, concurrently with traffic.

It owns a turn from its end to its results: the *pipeline* redacts and stores it, has it completed by its evidence and
scored, by the cases and evaluators of a suite (*case book*, *scorer*). It is given closed turns, the suite and rules of
their agent, and a source of evidence (traces). It hands turns and results to the store, and tells listeners what was
closed and scored.
"""
