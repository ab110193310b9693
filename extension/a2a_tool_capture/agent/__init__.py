"""The agent's side: reports tool calls to clients that activate the extension.

The *executor* wraps the agent's executor and adds calls to artifacts; the *request handler* and *filtering* remove them
from responses to other clients. The *gate* lets only known callers activate the extension. `middleware` works with any
ASGI server. `sdk_compat` hides the differences between a2a-sdk 0.3 and 1.x.

The middleware and the gate do not need a2a-sdk.
"""
