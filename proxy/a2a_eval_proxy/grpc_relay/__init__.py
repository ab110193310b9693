"""The data port for gRPC: passes calls of any service to the agent as bytes, and captures those of A2A.

`relayed_call` passes one call, `messages` reads copies of A2A messages, `message_filter` removes the extension from
them, `server` listens. Requires grpcio, an optional dependency.

Imported by `serving`. Imports relay, capture, protocol and net.
"""
