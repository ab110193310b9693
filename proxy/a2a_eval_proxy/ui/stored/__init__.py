"""The pages over a store, without an agent and without traffic: `a2a-eval-proxy ui`.

`store_pages` serves them. The *store watch* polls the store for turns that other processes add, and publishes them as
live events.
"""
