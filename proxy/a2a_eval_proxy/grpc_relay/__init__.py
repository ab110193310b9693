"""The data port for gRPC: passes calls of any service to the agent as bytes, and captures those of A2A.

`relayed_call` passes one call, `messages` reads copies of A2A messages, `message_filter` removes the extension from
them, `error_details` from errors, `extended_card` names the proxy's addresses, `held_messages` bounds memory, `server`
listens, `agent_channel` connects to the agent, `tls` reads certificates. All require grpcio, an optional dependency.
"""
