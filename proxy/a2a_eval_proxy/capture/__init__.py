"""Builds turns from observed requests and responses. Sans-io: no sockets, clocks or files.

An *exchange* is one HTTP request with its response. A *turn* is one user message and all the agent did for it. The
*turn book* joins exchanges into turns and closes a turn when the agent has answered. A *lookup* asks the store about
a task that the turn book does not know.
"""
