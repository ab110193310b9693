"""The data port: where clients connect, in this process or in several *serving processes*.

The *data port* relays requests and captures turns. It reports them: in one process directly to scoring; with
`--processes N`, N serving processes report over a *link* to the *main process*, which stores and scores turns and has
the admin port. The *supervisor* is their parent: it starts serving processes again when they end.
"""
