"""HTTP plumbing that knows nothing of A2A: client, server, TLS, and limits on clients.

The *HTTP client* sends bytes to the agent over pooled connections. The *HTTP server* is uvicorn inside our event loop,
which accepts connections and ends them; what is spoken on them is ours (`http1_connection`, `http2_server`; both on one
port: `negotiated_connection`). *Ports* start a server again that ended unexpectedly. A *file watcher* reloads files
that others replace, such as certificates. The *browser guard* refuses web pages.
"""
