"""The byte path: passes requests to the agent and responses to the client, unchanged but for the extension.

It owns what decides which bytes pass: who asked, which bodies are read and how (`relayed_exchange`, `answer_readers`,
both sans-io; `forwarder` and `responses` are their shell), and which tasks a caller has *opted in* to. It is given
requests by `serving`, and hands on what it has read to capture and to the wire log (`reports`), of which it asks
nothing.
"""
