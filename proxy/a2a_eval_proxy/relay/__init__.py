"""The byte path: passes requests to the agent and responses to the client, unchanged.

The *forwarder* is the ASGI application; the *upstream* is the agent. The *tap* copies what passes to capture and
stops capture's errors. *Negotiation* decides whether a request activates the extension; a task is *opted in* when its
caller did.
"""
