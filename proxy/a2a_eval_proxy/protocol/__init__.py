"""A2A over HTTP as bytes and values: operations, headers, agent cards, events, error bodies. Sans-io.

It owns how A2A looks on the wire, in each version and *binding* (JSON-RPC or HTTP+JSON): which *operation* a request
is, where a body holds the extension or a webhook. It is given heads, bodies and events. It hands on what they say,
errors in the shape of a binding, and bodies in which nothing differs but what had to.
"""
