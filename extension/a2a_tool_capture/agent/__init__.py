"""The agent's side: reports tool calls to clients that activate the extension.

The *executor* wraps the agent's executor and adds calls to artifacts; the *request handler* and *filtering* remove them
from responses to other clients. *Gates* let only known callers activate the extension. `middleware` works with any ASGI
server. `sdk_compat` hides the differences between a2a-sdk 0.3 and 1.x.

The middleware and gates do not need a2a-sdk.
"""
