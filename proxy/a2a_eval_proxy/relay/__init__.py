"""The byte path: passes requests to the agent and responses to the client, unchanged but for the extension.

It owns what decides which bytes pass: who asked, and which tasks a caller has *opted in* to (`relayed_exchange`), which
bodies are read and how (`answer_readers`); `forwarder` moves the bytes over HTTP. It is given requests by `serving`,
and hands on what it has read to capture and to the wire log, of which it asks nothing.
"""
