"""From a closed turn to a stored, scored one, concurrently with traffic.

The *pipeline* stores a turn, waits for its spans, has it scored and stores the results. The *case book* finds the
suite's case of a turn; the *scorer* runs the evaluators, the *executor* decides in which thread or process. A
*conversation* is scored when all turns of its case are. *Stored tasks* takes over turns of a process that ended.
"""
