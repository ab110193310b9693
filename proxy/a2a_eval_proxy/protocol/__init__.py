"""A2A over HTTP as bytes and values: operations, headers, agent cards, events, error bodies. Sans-io.

An *operation* is an A2A method, whatever binding and protocol version carries it. A *binding* is JSON-RPC or
HTTP+JSON. The *extension filter* removes tool-call-capture data from bodies and leaves every other byte unchanged.
"""
