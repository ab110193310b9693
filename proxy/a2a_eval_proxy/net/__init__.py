"""HTTP plumbing that knows nothing of A2A: client, server, TLS, and limits on clients.

It owns connections and their memory until a request is parsed, is given applications that answer, and hands them each
request within its limits: `http_server` listens, `http1_connection` reads HTTP/1.1 and hands HTTP/2 to `http2_server`,
and all ports share one `Capacity`. The *HTTP client* sends bytes to the agent over pooled connections. A *file watcher*
reloads files that others replace, such as certificates, and the *browser guard* refuses web pages.
"""
