"""The push relay: clients' webhooks get an address of the proxy, which passes the agent's notifications on.

`rewriting` and `notifications` are pure. `registry` keeps who registered which webhook, `capture` takes notifications
as a stream of their task, `sender` and `listener` are the shells.
"""
