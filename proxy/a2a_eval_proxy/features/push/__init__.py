"""The push relay: clients' webhooks get an address of the proxy, which passes the agent's notifications on.

It owns who registered which webhook, in the store (`registry`), and what the notifications of each have shown
(`notifications`). It is given webhooks by the requests that set them, and notifications by the port for them
(`listener`). It hands each notification to its webhook once, without tool calls for clients that did not ask, the
webhook's answer to the agent, and what it shows to the turn book.
"""
