"""HTTP plumbing that knows nothing of A2A: client, server, TLS, and limits on clients.

It owns connections, and the bytes that have arrived on them until somebody takes them. It is given ASGI applications,
and hands each request to one of them as a `served_request`, which is read, written to, and says when the client has
left: `http_server` listens, `http1_connection` speaks HTTP/1.1 and hands HTTP/2 to `http2_server`, and all ports share
one `Capacity` of `client_limits`. What it is given for the agent it sends over pooled connections: `http_client` has
the pool, `http_connection` one request and its response, of which nothing is decoded.

Besides, `file_watcher` loads files again that others replace, such as certificates, and `browser_guard` refuses web
pages.
"""
