"""For agents on a2a-sdk servers: report tool calls to clients that activate the extension, and to no others.

The *executor* wraps the agent's own and adds calls to artifacts; the *request handler* and *filtering* keep them from
clients that did not ask. *Gates* let only known callers ask. `middleware` serves any ASGI server. `sdk_compat` hides
the differences of a2a-sdk 0.3 and 1.x.

Imported by bridges and the package's face. Imports the core modules; needs a2a-sdk, except for the middleware and
gates.
"""
