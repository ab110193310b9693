"""Calls over gRPC: passes those of any service to the agent as bytes, and captures those of A2A.

It owns a call from its header to its trailers (`relayed_call`), and the messages that it holds meanwhile. It is given
streams of HTTP/2 by `serving`, and by `relay` what all requests to one agent share. It hands bytes to the `agent` and
the client, without the extension where that was not asked for, and copies of messages as JSON to capture.
"""
