"""The data port for gRPC: passes calls of any service to the agent as bytes, and captures those of A2A.

`server` answers calls of clients, `relayed_call` passes one to the `agent`, `messages` reads copies of A2A messages,
`message_filter` removes the extension from them, `error_details` from errors, `extended_card` names the proxy's
addresses, `held_messages` bounds memory. HTTP/2 is that of `net`.
"""
