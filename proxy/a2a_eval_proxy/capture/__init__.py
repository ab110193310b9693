"""Owns what exchanges show of turns: a *turn* is one user message and all the agent did for it.

It is given the values that the byte path has read, with times, and of a task that is more than one exchange the
observations that are kept. It hands on closed turns, observations to keep, and copies of open turns. Sans-io: no
sockets, clocks or files.
"""
